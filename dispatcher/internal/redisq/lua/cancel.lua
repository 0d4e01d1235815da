-- cancel: end unfinished deliveries. A ready one is taken out of its lane's list, so that counts and lists agree at once,
-- though the lane is held or has no takers. A leased one gets a mark, and so does a ready one that is too far from both
-- ends of a long list. The next script that reads it carries the mark out.
-- needs: common(first_write, kept_record, now, split, sure), lane_state(lanes, load_lanes), progress(parse_progress,
--   waiting_status), sums(append_pair, count, log_line), finish(finish), ends(ended, write_ends), order(leave_line,
--   set_ahead_of), reach(close_lists, reach_of, take_out), job(DONE_BEFORE, accepted_since, count_code, parse_job,
--   read_job, write_job)
--
-- ARGV[3] job, ARGV[4..] deliveries; job: as job.lua reads it; empty: a person calls
-- returns now, due, weight, of a job its text (empty: the turn is another's, and nothing changed), then for each: 1 cancelled
--   now, 2 a person cancelled it, and it may lie deep in a list, where sweep ends it (of a job, sweep comes at its end), 0 was finished or cancelled already, -1 not
--   kept, -8 it was published since the job began
local job, deliveries, names = parse_job(ARGV[3]), {}, {}
for i = 4, #ARGV do
  deliveries[#deliveries + 1] = ARGV[i]
  names[#names + 1] = (split(ARGV[i]))
end
first_write()
if job and not read_job(job) then
  local t, d, w = finish()
  return { t, d, w, '' }
end
if #deliveries == 0 then
  local t, d, w = finish()
  return { t, d, w, job and write_job(job) or '' }
end
load_lanes(names)

local function cancelled(delivery, l, status)
  l.waiting = l.waiting - 1
  count(status, -1)
  count('cancelled', 1)
  append_pair(ended.cancelled, now, delivery)
end

-- withdraw ends a ready delivery. It reports whether the delivery was found.
local function withdraw(l, delivery, id, record, text)
  if not take_out(l, id) then return false end
  cancelled(delivery, l, 'ready')
  log_line(delivery, 'cancelled', 0, 0, (parse_progress(text)), '-')
  leave_line(l, id, record)
  return true
end

local wholes = {}
local MARKED = 2 -- the list was not read to its end

-- cancel returns the code of one delivery.
local function cancel(delivery, l, id)
  local record = kept_record(l.name, id, wholes)
  if not record then return -1 end
  if job and accepted_since(job, record) then return DONE_BEFORE end
  local text = sure('HGET', PROGRESS, delivery)
  if sure('ZREM', DUE, delivery) == 1 then
    cancelled(delivery, l, waiting_status(text))
    log_line(delivery, 'cancelled', 0, 0, (parse_progress(text)), '-')
    leave_line(l, id, record)
    return 1
  end
  if sure('ZSCORE', DONE, delivery) or sure('ZSCORE', DEAD, delivery) or sure('ZSCORE', CANCELLED, delivery) then
    return 0
  end
  local behind = set_ahead_of(l, id, record)
  if behind then
    sure('ZREM', behind, id)
    cancelled(delivery, l, 'scheduled')
    log_line(delivery, 'cancelled', 0, 0, (parse_progress(text)), '-')
    return 1
  end
  if sure('HEXISTS', MARKS, delivery) == 1 then return 0 end
  if withdraw(l, delivery, id, record, text) then return 1 end
  local reach, marked = reach_of(l), sure('HSETNX', MARKS, delivery, 'c')
  if marked == 1 and not job and reach.head + reach.tail < reach.length then return MARKED end
  return marked
end

local codes = {}
for i, delivery in ipairs(deliveries) do
  local lane, id = split(delivery)
  local l = lanes[lane]
  codes[i] = cancel(delivery, l, id)
  if job then count_code(job, codes[i], delivery) end
  write_ends()
end
close_lists()
local told = job and write_job(job)
local t, d, w = finish()
return { t, d, w, told or '', unpack(codes) }
