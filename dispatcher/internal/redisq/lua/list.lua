-- list: a page of one index, newest first.
--
-- ARGV[..] after those of read: index (due, done, dead, cancelled, leases, ready), its instance or lane or empty, most,
-- score and name of the last one before (empty: from the start; ready: its position)
-- returns now, due, weight, then for each: delivery, score (ready: position), ms, status, head of the record (empty: none),
-- progress, newest of its history (empty: none), "flying waiting window" of its lane
local index, of, wanted = ARGV[rest], ARGV[rest + 1], tonumber(ARGV[rest + 2])
local after, last = ARGV[rest + 3], ARGV[rest + 4]
local zsets = { due = DUE, done = DONE, dead = DEAD, cancelled = CANCELLED, leases = LEASES .. of }

-- offset is where a page begins: right behind the last one, or behind where it stood, were it still there. Many share
-- one ms, so a place is looked for by halving, by score and then by name.
local function offset(key)
  if after == '' then return 0 end
  local rank = call('ZREVRANK', key, last)
  if rank and tonumber(call('ZSCORE', key, last)) == tonumber(after) then return rank + 1 end
  local low = call('ZCOUNT', key, '(' .. after, '+inf')
  local high = low + call('ZCOUNT', key, after, after)
  while low < high do
    local middle = floor((low + high) / 2)
    if call('ZREVRANGE', key, middle, middle)[1] < last then high = middle else low = middle + 1 end
  end
  return low
end

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
else
  local key = zsets[index]
  local at = offset(key)
  local list = call('ZREVRANGE', key, at, at + wanted - 1, 'WITHSCORES')
  for i = 1, #list, 2 do found[#found + 1] = { list[i], num(list[i + 1]), num(list[i + 1]) } end
end

local answer = { micros, before_due, before_weight }
for _, f in ipairs(found) do
  local delivery = f[1]
  local lane, id = parts(delivery)
  load({ lane })
  local l = lanes[lane]
  local record = call('HGET', MESSAGES, id)
  local status = stands(delivery)
  answer[#answer + 1] = delivery
  answer[#answer + 1] = f[2]
  answer[#answer + 1] = f[3]
  answer[#answer + 1] = status
  answer[#answer + 1] = record and #record > DIGEST and head(record) or ''
  answer[#answer + 1] = call('HGET', PROGRESS, delivery) or ''
  answer[#answer + 1] = call('LINDEX', HISTORY .. delivery, 0) or ''
  answer[#answer + 1] = l.flying .. ' ' .. l.waiting .. ' ' .. l.window
end
return answer
