-- repartition_name: how a message is kept for some of its lanes; put before repartition_put and repartition_keep. Lanes
-- are named as in :fan; -* says that others, which are not known any more, were here and are gone. It takes no arguments of its
-- own: ARGV[3..] is the script's.

-- named lists the lanes of a text in their order, each once, and whether one of them is not gone. Where a lane is named
-- as gone and as not gone, it is not.
local function named(text)
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

-- to_lane is a record that names this lane as its only one; none where that is empty.
local function to_lane(record, lane)
  return sub(record, 1, 42) .. string.char(#lane) .. lane .. sub(record, 44 + string.byte(record, 43))
end

-- keep_named keeps a message whole for lanes of which one is not gone.
local function keep_named(id, record, list)
  if #list == 1 then
    call('HSET', MESSAGES, id, to_lane(record, list[1]))
    call('HDEL', FAN, id)
  else
    call('HSET', MESSAGES, id, to_lane(record, ''))
    call('HSET', FAN, id, table.concat(list, ' '))
  end
  call('ZREM', SEEN, id)
end

-- keep_id keeps only that the id is known, since ms at the latest.
local function keep_id(id, record, ms)
  drop_body(id, record)
  call('HSET', MESSAGES, id, sub(record, 1, DIGEST))
  call('HDEL', FAN, id)
  local was = call('ZSCORE', SEEN, id)
  if not was or tonumber(was) < ms then call('ZADD', SEEN, num(ms), id) end
end
