-- list: a page of one index, newest first.
--
-- ARGV[..] after those of read: index (due, done, dead, cancelled, leases, ready, behind), its instance or lane or empty,
-- most, score and name of the last one before (empty: from the start; ready: its position; behind: the key for the name)
-- returns now, due, weight, then for each: delivery, score (ready: position), ms, status, head of the record (empty: none),
-- progress, newest of its history (empty: none), what it waits for (empty: nothing), "<key> <score>" of the line in which
-- others wait behind it (empty: none do)
local index, of, wanted = ARGV[rest], ARGV[rest + 1], tonumber(ARGV[rest + 2])
local after, last = ARGV[rest + 3], ARGV[rest + 4]
local zsets = { due = DUE, done = DONE, dead = DEAD, cancelled = CANCELLED, leases = LEASES .. of }

local found = {} -- delivery, score, ms
if index == 'ready' then
  -- From the tail to the head. What is taken meanwhile goes from the head and shifts the rest towards it, so nothing
  -- that stays is missed.
  local length = call('LLEN', READY .. of)
  local top = after == '' and length - 1 or math.min(tonumber(after) - 1, length - 1)
  local bottom = math.max(0, top - wanted + 1)
  local list = top >= 0 and call('LRANGE', READY .. of, bottom, top) or {}
  for i = #list, 1, -1 do
    local due, id = string.match(list[i], '^(%d+):(.+)$')
    found[#found + 1] = { of .. ':' .. id, bottom + i - 1, due }
  end
elseif index == 'behind' then
  local list = call('ZRANGEBYSCORE', BEHIND .. of .. ':' .. last, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, wanted)
  for i = 1, #list, 2 do found[#found + 1] = { of .. ':' .. list[i], num(list[i + 1]), 0 } end
else
  local key = zsets[index]
  local at = offset(key, after, last)
  local list = call('ZREVRANGE', key, at, at + wanted - 1, 'WITHSCORES')
  for i = 1, #list, 2 do found[#found + 1] = { list[i], num(list[i + 1]), num(list[i + 1]) } end
end

-- leads is the line of which a delivery is the first, with others behind it.
local function leads(l, id, record)
  if l.state.keys == 0 then return '' end
  for _, set in ipairs(sets_of(l, record)) do
    local two = call('ZRANGE', set, 0, 1, 'WITHSCORES')
    if two[1] == id and two[3] then return sub(set, #BEHIND + #l.name + 2) .. ' ' .. num(two[2]) end
  end
  return ''
end

local names = {}
for i, f in ipairs(found) do names[i] = lane_of(f[1]) end
load(names)
local answer = { micros, before_due, weighs(before_weight) }
for _, f in ipairs(found) do
  local delivery = f[1]
  local lane, id = parts(delivery)
  local record = call('HGET', MESSAGES, id)
  local status, _, why = stands(delivery, lanes[lane], id, record)
  answer[#answer + 1] = delivery
  answer[#answer + 1] = f[2]
  answer[#answer + 1] = f[3]
  answer[#answer + 1] = status
  answer[#answer + 1] = record and #record > DIGEST and head(record) or ''
  answer[#answer + 1] = call('HGET', PROGRESS, delivery) or ''
  answer[#answer + 1] = call('LINDEX', HISTORY .. delivery, 0) or ''
  answer[#answer + 1] = why
  answer[#answer + 1] = leads(lanes[lane], id, record)
end
return answer
