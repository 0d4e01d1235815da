-- named: how a message is stored for some of its lanes. It is put before scripts that bring messages from another store or
-- partition. Lanes are named as in :fan. The name -* says that other, unknown lanes were here and are gone. It takes no arguments
-- of its own: ARGV[3..] is the script's.
-- needs: common(call, drop_body, num, sub), subject(forget_subjects, note_subjects, token_of)

-- parse_named lists the lanes of a text in their order, each once, and whether one of them is not gone. A lane that is named
-- both as gone and as not gone is not gone.
local function parse_named(text)
  local list, at, living = {}, {}, false
  for name in string.gmatch(text, '%S+') do
    local gone = sub(name, 1, 1) == '-'
    local lane = gone and sub(name, 2) or name
    if not at[lane] then
      list[#list + 1] = name
      at[lane] = #list
    elseif not gone then
      list[at[lane]] = name
    end
    living = living or not gone
  end
  return list, living
end

-- with_only_lane is a record that names this lane as its only one. It names none if the lane is empty.
local function with_only_lane(record, lane)
  return sub(record, 1, 42) .. string.char(#lane) .. lane .. sub(record, 44 + string.byte(record, 43))
end

-- write_named keeps a message whole for its lanes, of which at least one is not gone.
local function write_named(id, record, list)
  if #list == 1 then
    call('HSET', MESSAGES, id, with_only_lane(record, list[1]))
    call('HDEL', FAN, id)
  else
    call('HSET', MESSAGES, id, with_only_lane(record, ''))
    call('HSET', FAN, id, table.concat(list, ' '))
  end
  call('ZREM', SEEN, id)
  local token, digits = token_of(record)
  if token then note_subjects({ token, id, digits }) end
end

-- write_known_id keeps only the id, with the later of its times.
local function write_known_id(id, record, ms)
  drop_body(id, record)
  local token, digits = token_of(record)
  if token then forget_subjects({ token, id, digits }) end
  call('HSET', MESSAGES, id, sub(record, 1, DIGEST))
  call('HDEL', FAN, id)
  local was = call('ZSCORE', SEEN, id)
  if not was or tonumber(was) < ms then call('ZADD', SEEN, num(ms), id) end
end
