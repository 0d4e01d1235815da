-- move: make due deliveries ready, the earliest first. It also places the parked lanes whose time has come, and ends
-- the ready lists of disabled and deleted endpoints.
--
-- ARGV[3] most  most deliveries to move, most lanes to place, and most deliveries to end of ready lists
-- returns now, due, weight
local batch = tonumber(ARGV[3])
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
if #deliveries == 0 and #parked == 0 then return { finish() } end
local names = {}
for i, lane in ipairs(order) do names[i] = lane end
for _, lane in ipairs(parked) do names[#names + 1] = lane end
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
for _, lane in ipairs(parked) do
  local l = lanes[lane]
  l.place = true
  if ends(l) and left > 0 then left = left - end_ready(l, left) end
end
flush()
return { finish() }
