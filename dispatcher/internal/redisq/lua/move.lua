-- move: make due deliveries ready, the earliest first. It also places the parked lanes whose time has come, and ends
-- the ready lists of disabled and deleted endpoints, and what has expired. Leases that have ended by themselves become the
-- caller's, which counts them as failed attempts.
--
-- ARGV[3] most  most deliveries to move, most lanes to place, and most deliveries to end of ready lists
-- ARGV[4] bytes  most of heads of records to answer, but for one delivery
-- returns now, due, weight, then for each lease that ended: delivery, ms when it was taken, progress, head of the record;
--   "fenced" alone where some ended and the instance was declared dead
local LEASES_MOST = 64 -- leases that one call takes over
local batch, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local due = call('ZRANGEBYSCORE', DUE, '-inf', now, 'WITHSCORES', 'LIMIT', 0, batch)
local parked = before_parked > 0 and before_parked <= now
  and call('ZRANGEBYSCORE', PARKED, '-inf', now, 'LIMIT', 0, batch) or {}
local deliveries, owners, elements, groups, order = {}, {}, {}, {}, {}
for i = 1, #due, 2 do
  local lane, id = parts(due[i])
  deliveries[#deliveries + 1], owners[#owners + 1] = due[i], lane
  if not groups[lane] then
    groups[lane] = {}
    order[#order + 1] = lane
  end
  elements[#elements + 1] = ms_of(due[i + 1]) .. ':' .. id
end
local timer = before_parked > 0 and tonumber(call('ZSCORE', PARKED, TIMER) or nil)
local some_end = timer and (timer <= now or timer > now + LONGEST)
local expiry = before_parked > 0 and before_parked <= now and tonumber(call('ZSCORE', PARKED, '~expiring') or nil)
if #deliveries == 0 and #parked == 0 and not some_end then return { finish() } end
if some_end and call('ZSCORE', FENCED, by) then return { 'fenced' } end
local names, waiting = {}, {}
for i, lane in ipairs(order) do names[i] = lane end
for _, lane in ipairs(parked) do
  if lane ~= TIMER and lane ~= '~expiring' then
    names[#names + 1], waiting[#waiting + 1] = lane, lane
  end
end
load(names)

local texts = #deliveries > 0 and of(PROGRESS, deliveries) or NONE
if #deliveries == 0 then call('DEL', tag) end -- a removal first
each('ZREM', DUE, deliveries)
for i, delivery in ipairs(deliveries) do
  local l = lanes[owners[i]]
  local id = sub(delivery, #l.name + 2)
  if ends_with(l, id) then
    expel(l, delivery, id, texts[i])
  else
    local list = groups[l.name]
    list[#list + 1] = elements[i]
    count(waits(texts[i]), -1)
  end
end
for _, lane in ipairs(order) do
  local l = lanes[lane]
  local n = #groups[lane]
  if n > 0 then
    l.ready = sure('RPUSH', READY .. lane, unpack(groups[lane]))
    count('ready', n)
    if l.ready == n or l.ready > l.waiting then -- it was empty, or its count was lost: then it would not be placed
      l.place, l.waiting = true, math.max(l.waiting, l.ready)
    end
  end
end

local left = batch
for _, lane in ipairs(waiting) do
  local l = lanes[lane]
  l.place = true
  if ends(l) and left > 0 then left = left - end_ready(l, left) end
end

-- end_leases takes over what has ended, and what another clock has set an end for that may never come.
local function end_leases(answer)
  local list = sure('ZRANGEBYSCORE', TAKEN, '-inf', now, 'LIMIT', 0, LEASES_MOST)
  if #list < LEASES_MOST then
    local ahead = sure('ZRANGEBYSCORE', TAKEN, '(' .. num(now + LONGEST), '+inf', 'LIMIT', 0, LEASES_MOST - #list)
    for _, delivery in ipairs(ahead) do list[#list + 1] = delivery end
  end
  if #list > 0 then adopt(list, sure('HMGET', TOKENS, unpack(list)), most_bytes, answer) end
  set_timer()
end

local pause = expiry and expiry <= now and end_expired()

local answer = { 0, 0, 0 }
if some_end then end_leases(answer) end
flush()
if pause then set_expiry(pause) end
answer[1], answer[2], answer[3] = finish()
return answer
