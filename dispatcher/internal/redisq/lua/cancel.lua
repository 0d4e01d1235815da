-- cancel: end unfinished deliveries. A ready or leased delivery gets a mark. The next script that reads it carries the
-- mark out, so no list has to be searched. But where the number that may wait in a lane is limited, marked deliveries
-- would keep a held lane full. There the list is searched, once for all deliveries, and only at both ends if it is
-- long.
--
-- ARGV[3] job, ARGV[4..] deliveries; job: as job.lua reads it; empty: a person calls
-- returns now, due, weight, of a job its text (empty: the turn is another's, and nothing changed), then for each: 1 cancelled
--   now, 0 was finished or cancelled already, -1 not kept, -8 it was published since the job began
local SEARCHED = 512 -- elements of lists that one call reads; removing one passes those before it, up to half as many

local job, deliveries, names = job_of(ARGV[3]), {}, {}
for i = 4, #ARGV do
  deliveries[#deliveries + 1] = ARGV[i]
  names[#names + 1] = (parts(ARGV[i]))
end
call('DEL', tag)
if job and not begins(job) then
  local t, d, w = finish()
  return { t, d, w, '' }
end
if #deliveries == 0 then
  local t, d, w = finish()
  return { t, d, w, job and keep_job(job) or '' }
end
load(names)

local function cancelled(delivery, l, status)
  l.waiting = l.waiting - 1
  count(status, -1)
  count('cancelled', 1)
  put(ended.cancelled, now, delivery)
end

-- element_of answers a delivery's element of its lane's ready list, and the end from which it is found (1 the head, -1
-- the tail). It answers nil where none was found.
local elements, searched = {}, 0
local function element_of(l, id)
  local list = elements[l]
  if not list then
    list = {}
    elements[l] = list
    local n, left = most_waiting > 0 and queued(l) or 0, floor((SEARCHED - searched) / 2)
    local ends_of = n <= left and { { 0, -1 } } or { { 0, left - 1 }, { -left, -1 } }
    for _, part in ipairs(n > 0 and left > 0 and ends_of or NONE) do
      for _, element in ipairs(sure('LRANGE', READY .. l.name, part[1], part[2])) do
        list[sub(element, (find(element, ':', 1, true) or #element) + 1)] = { element, part[1] < 0 and -1 or 1 }
        searched = searched + 1
      end
    end
  end
  return list[id]
end

-- withdraw ends a ready delivery. It reports whether the delivery was found.
local function withdraw(l, delivery, id, record, text)
  local element = element_of(l, id)
  if not element or sure('LREM', READY .. l.name, element[2], element[1]) == 0 then return false end
  elements[l][id], l.ready = nil, nil
  cancelled(delivery, l, 'ready')
  if queued(l) == 0 then l.emptied = true end
  note(delivery, 'cancelled', 0, 0, (progress(text)), '-')
  leave(l, id, record)
  return true
end

local wholes = {}

-- cancel answers the code of one delivery.
local function cancel(delivery, l, id)
  local record = exists(l.name, id, wholes)
  if not record then return -1 end
  if job and created(record) > job.since then return DONE_BEFORE end
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
  if sure('HEXISTS', MARKS, delivery) == 1 then return 0 end
  if withdraw(l, delivery, id, record, text) then return 1 end
  return sure('HSETNX', MARKS, delivery, 'c')
end

local codes = {}
for i, delivery in ipairs(deliveries) do
  local lane, id = parts(delivery)
  local l = lanes[lane]
  codes[i] = cancel(delivery, l, id)
  if job then counted(job, codes[i], delivery) end
  if l.state.keys > 0 then elements[l] = nil end -- the next of its key may be ready now
  flush()
end
local told = job and keep_job(job)
local t, d, w = finish()
return { t, d, w, told or '', unpack(codes) }
