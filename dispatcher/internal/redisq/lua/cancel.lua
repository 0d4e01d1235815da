-- cancel: end what is not finished. What is ready or in flight gets a mark, which the next script that meets it carries
-- out: nobody has to search a list.
--
-- ARGV[3..] deliveries
-- returns now, due, weight, then for each: 1 cancelled now, 0 was finished or cancelled already, -1 not kept
local deliveries, names = {}, {}
for i = 3, #ARGV do
  deliveries[#deliveries + 1] = ARGV[i]
  names[#names + 1] = (parts(ARGV[i]))
end
call('DEL', tag)
if #deliveries == 0 then return { finish() } end
load(names)

local codes = {}
for i, delivery in ipairs(deliveries) do
  local lane, id = parts(delivery)
  if not exists(lane, id) then
    codes[i] = -1
  elseif call('ZREM', DUE, delivery) == 1 then
    local text = call('HGET', PROGRESS, delivery)
    lanes[lane].waiting = lanes[lane].waiting - 1
    count(waits(text), -1)
    count('cancelled', 1)
    call('ZADD', CANCELLED, now, delivery)
    note(delivery, 'cancelled', 0, 0, (progress(text)), '-')
    codes[i] = 1
  elseif call('ZSCORE', DONE, delivery) or call('ZSCORE', DEAD, delivery) or call('ZSCORE', CANCELLED, delivery) then
    codes[i] = 0
  else
    codes[i] = call('HSETNX', MARKS, delivery, 'c')
  end
end
local t, d, w = finish()
return { t, d, w, unpack(codes) }
