-- unfinished: a page of the deliveries that have not finished, with all that it takes to put them into another store. A
-- message that is there from the first page to the last is in one of them at least.
-- needs: common(call, hex, key_of, lanes_of, marked_delivered, num, sub), server(server)
--
-- ARGV[3]  cursor  0 at the begin
-- ARGV[4]  count   messages of a page, some more or less
-- ARGV[5]  count   the same if bodies are in :bodies, which the caller reads
-- ARGV[6..] ids    of messages: these are read instead of a page
-- returns cursor (0: there is no more), epoch, the process that the cursor is valid for, messages that were read, all messages
--   of the partition, then for each message: id, record, number of deliveries, and of each: lane, progress, due, score in the
--   line of its key; empty if there is none

-- read_ids reads messages by their ids, as HSCAN returns them.
local function read_ids()
  local ids, list = { unpack(ARGV, 6) }, {}
  for i, record in ipairs(call('HMGET', MESSAGES, unpack(ids))) do
    if record then
      list[#list + 1] = ids[i]
      list[#list + 1] = record
    end
  end
  return { '0', list }
end
local most = call('HLEN', BODIES) > 0 and ARGV[5] or ARGV[4]
local found = ARGV[6] and read_ids() or call('HSCAN', MESSAGES, ARGV[3], 'COUNT', most)
local answer = { found[1], call('HGET', LIMITS, '~epoch') or '', server(), #found[2] / 2, call('HLEN', MESSAGES) }
local NAMES_AT_ONCE = 1000

local ordered = {} -- lanes -> whether their deliveries are in line whatever their key
local function in_line(lane, id, record)
  if ordered[lane] == nil then ordered[lane] = call('EXISTS', BEHIND .. lane .. ':*') == 1 end
  local at = ordered[lane] and call('ZSCORE', BEHIND .. lane .. ':*', id)
  local key = key_of(record)
  if not at and key ~= NO_KEY then at = call('ZSCORE', BEHIND .. lane .. ':' .. hex(key), id) end
  return at and num(at) or ''
end

local messages, names = {}, {}
for i = 1, #found[2], 2 do
  local id, record = found[2][i], found[2][i + 1]
  if #record > DIGEST then
    local m = { id = id, record = record, lanes = {}, first = #names + 1 }
    for _, lane in ipairs(lanes_of(id, record)) do
      if sub(lane, 1, 1) ~= '-' and lane ~= '' then
        m.lanes[#m.lanes + 1] = lane
        names[#names + 1] = lane .. ':' .. id
      end
    end
    messages[#messages + 1] = m
  end
end

-- The answer for each name.
local ended_rank, marks, texts, dues = {}, {}, {}, {}
for from = 1, #names, NAMES_AT_ONCE do
  local some = { unpack(names, from, math.min(from + NAMES_AT_ONCE - 1, #names)) }
  for _, set in ipairs({ DONE, DEAD, CANCELLED }) do
    for i, score in ipairs(call('ZMSCORE', set, unpack(some))) do ended_rank[from + i - 1] = ended_rank[from + i - 1] or score end
  end
  local m, t, d = call('HMGET', MARKS, unpack(some)), call('HMGET', PROGRESS, unpack(some)), call('ZMSCORE', DUE, unpack(some))
  for i = 1, #some do marks[from + i - 1], texts[from + i - 1], dues[from + i - 1] = m[i], t[i], d[i] end
end

for _, m in ipairs(messages) do
  local deliveries = {}
  for k, lane in ipairs(m.lanes) do
    local at, n = m.first + k - 1, #deliveries
    if not ended_rank[at] and not marked_delivered(marks[at]) then
      deliveries[n + 1], deliveries[n + 2] = lane, texts[at] or ''
      deliveries[n + 3], deliveries[n + 4] = dues[at] and num(dues[at]) or '', in_line(lane, m.id, m.record)
    end
  end
  if #deliveries > 0 then
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = m.id, m.record, #deliveries / 4
    for k, value in ipairs(deliveries) do answer[n + 3 + k] = value end
  end
end
return answer
