-- retry: make ready at once. What waits keeps its rung, what ended starts a new ladder, what is in flight is left.
--
-- ARGV[3] count  number of instances' names that follow
-- ARGV[4..]      names, then deliveries
-- returns now, due, weight, then for each: 1 ready now, 0 was ready already, -1 not kept, -2 an attempt is under way
local k = tonumber(ARGV[3])
local instances, deliveries, names = {}, {}, {}
for i = 4, 3 + k do instances[#instances + 1] = ARGV[i] end
for i = 4 + k, #ARGV do
  deliveries[#deliveries + 1] = ARGV[i]
  names[#names + 1] = (parts(ARGV[i]))
end
call('DEL', tag)
if #deliveries == 0 then return { finish() } end
load(names)

local function leased(delivery)
  for _, name in ipairs(instances) do
    if call('ZSCORE', LEASES .. name, delivery) then return true end
  end
  return false
end

local function ready(lane, id)
  local l = lanes[lane]
  if call('RPUSH', READY .. lane, num(now) .. ':' .. id) == 1 then l.place = true end
  if l.ready then l.ready = l.ready + 1 end
  l.waiting = l.waiting + 1
  count('ready', 1)
end

local function asked_again(delivery, lane, id)
  local text = call('HGET', PROGRESS, delivery)
  local attempts, base, deaths, status, _, reason = progress(text)
  if call('ZREM', DUE, delivery) == 1 then
    lanes[lane].waiting = lanes[lane].waiting - 1
    count(waits(text), -1)
  elseif call('ZREM', DEAD, delivery) == 1 then
    count('dead', -1)
    bury(lane, reason, -1)
    base, deaths = attempts, 0
  elseif call('ZREM', CANCELLED, delivery) == 1 then
    count('cancelled', -1)
    base, deaths = attempts, 0
  elseif call('ZREM', DONE, delivery) == 1 then
    count('delivered', -1)
    if not text then attempts, status = 1, 200 end -- settle writes no entry for the commonest end
    base, deaths = attempts, 0
  else
    return 0
  end
  call('HSET', PROGRESS, delivery, progressed(attempts, base, deaths, status, 1, '-'))
  ready(lane, id)
  return 1
end

local codes = {}
for i, delivery in ipairs(deliveries) do
  local lane, id = parts(delivery)
  local mark = call('HGET', MARKS, delivery)
  if not exists(lane, id) then
    codes[i] = -1
  elseif mark == 'd' then
    codes[i] = -2
  elseif mark == 'c' then
    call('HDEL', MARKS, delivery)
    codes[i] = 1
  elseif leased(delivery) then
    codes[i] = -2
  else
    codes[i] = asked_again(delivery, lane, id)
  end
end
local t, d, w = finish()
return { t, d, w, unpack(codes) }
