-- claim: lease ready deliveries to an instance, the lightest lanes first, fair turns among equals.
--
-- ARGV[3] wanted  most deliveries to lease
-- ARGV[4] free    free permits of the instance, those wanted among them
-- returns now, due, weight, number that ended instead, number without a record, then for each: delivery, due ms,
-- progress, record; "fenced" alone when the instance was declared dead
local TURN_MOST = 8 -- deliveries a lane gets in one turn

local wanted, free = tonumber(ARGV[3]), tonumber(ARGV[4])
if call('ZSCORE', FENCED, by) then return { 'fenced' } end
local heads = call('ZRANGE', LANES, 0, wanted - 1)
if #heads == 0 or free <= 0 then
  local t, d, w = finish()
  return { t, d, w, 0, 0 }
end
load(heads)

-- Lanes come in the order of their weight; one that had its turn comes again behind those that are as light.
local again, first, next_head = {}, 1, 1
local function lightest()
  local a, b = lanes[heads[next_head]], again[first]
  if a and (not b or weight(a) <= weight(b)) then
    next_head = next_head + 1
    return a
  end
  if b then first = first + 1 end
  return b
end
local function comes_again(l)
  local i = #again
  while i >= first and weight(again[i]) > weight(l) do
    again[i + 1] = again[i]
    i = i - 1
  end
  again[i + 1] = l
end

local deliveries, dues, ids = {}, {}, {}
while #deliveries < wanted do
  local l = lightest()
  if not l or not light(l, free) then break end
  local n = math.min(TURN_MOST, l.window - l.flying, wanted - #deliveries, free)
  local taken = n > 0 and call('LPOP', READY .. l.name, n) or {}
  for _, element in ipairs(taken) do
    local due, id = parts(element)
    deliveries[#deliveries + 1], dues[#dues + 1], ids[#ids + 1] = l.name .. ':' .. id, due, id
  end
  l.flying, l.waiting, free = l.flying + #taken, l.waiting - #taken, free - #taken
  l.ready = #taken == n and n > 0 and call('LLEN', READY .. l.name) or 0
  if l.ready == 0 then
    l.emptied = true
  elseif l.flying < l.window then
    comes_again(l)
  end
  l.place = true
end
if #deliveries == 0 then
  local t, d, w = finish()
  return { t, d, w, 0, 0 }
end

local records = call('HMGET', MESSAGES, unpack(ids))
local texts = call('HMGET', PROGRESS, unpack(deliveries))
local marks = call('HMGET', MARKS, unpack(deliveries))
local leases, unmarked, ends, lost, answer = {}, {}, { d = {}, c = {}, x = {} }, 0, { 0, 0, 0, 0, 0 }
local n = 5 -- values of the answer
local function ended(i, place)
  ends[place][#ends[place] + 1] = now
  ends[place][#ends[place] + 1] = deliveries[i]
  if marks[i] then unmarked[#unmarked + 1] = deliveries[i] end
  local l = lanes[lane_of(deliveries[i])]
  l.flying = l.flying - 1
end
for i, delivery in ipairs(deliveries) do
  local record = records[i]
  local expiry = record and #record > DIGEST and expires(record) or 0
  if not record or #record <= DIGEST then
    -- Removed by hand, or by a repair: it must neither stop the lane nor stay leased, and nothing of it is left.
    lost = lost + 1
    call('HDEL', PROGRESS, delivery)
    call('DEL', HISTORY .. delivery)
    call('HDEL', FAN, ids[i])
    local l = lanes[lane_of(delivery)]
    l.flying = l.flying - 1
    if marks[i] then unmarked[#unmarked + 1] = delivery end
  elseif marks[i] == 'd' then
    ended(i, 'd')
    count('delivered', 1)
  elseif marks[i] == 'c' then
    ended(i, 'c')
    count('cancelled', 1)
    note(delivery, 'cancelled', 0, 0, 0, '-')
  elseif expiry > 0 and expiry <= now then
    ended(i, 'x')
    count('dead', 1)
    bury(lane_of(delivery), 'expired', 1)
    local a, b, d, s = progress(texts[i])
    call('HSET', PROGRESS, delivery, progressed(a, b, d, s, 0, 'expired'))
    note(delivery, 'dead', 0, 0, a, 'expired')
  else
    leases[#leases + 1] = now
    leases[#leases + 1] = delivery
    answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = delivery, dues[i], texts[i] or '', record
    n = n + 4
  end
end
count('ready', -#deliveries)
count('in_flight', #leases / 2)
each('ZADD', LEASES .. by, leases)
each('ZADD', DONE, ends.d)
each('ZADD', CANCELLED, ends.c)
each('ZADD', DEAD, ends.x)
each('HDEL', MARKS, unmarked)
answer[1], answer[2], answer[3] = finish()
answer[4], answer[5] = (#ends.d + #ends.c + #ends.x) / 2, lost
return answer
