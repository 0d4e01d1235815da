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

local function cancelled(delivery, l, status)
  l.waiting = l.waiting - 1
  count(status, -1)
  count('cancelled', 1)
  put(ended.cancelled, now, delivery)
end

local wholes = {}

-- cancel answers the code of one.
local function cancel(delivery, l, id)
  local record = exists(l.name, id, wholes)
  if not record then return -1 end
  local text = sure('HGET', PROGRESS, delivery)
  if sure('ZREM', DUE, delivery) == 1 then
    cancelled(delivery, l, waits(text))
    note(delivery, 'cancelled', 0, 0, (progress(text)), '-')
    leave(l, id, record)
    return 1
  end
  if sure('ZSCORE', DONE, delivery) or sure('ZSCORE', DEAD, delivery) or sure('ZSCORE', CANCELLED, delivery) then
    return 0
  end
  local behind = stands_behind(l, id, record)
  if behind then
    sure('ZREM', behind, id)
    cancelled(delivery, l, 'scheduled')
    note(delivery, 'cancelled', 0, 0, (progress(text)), '-')
    return 1
  end
  return sure('HSETNX', MARKS, delivery, 'c')
end

local codes = {}
for i, delivery in ipairs(deliveries) do
  local lane, id = parts(delivery)
  codes[i] = cancel(delivery, lanes[lane], id)
  flush()
end
local t, d, w = finish()
return { t, d, w, unpack(codes) }
