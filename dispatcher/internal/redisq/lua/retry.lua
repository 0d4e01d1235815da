-- retry: make deliveries ready at once. An attempt of one that waits for its time does not count on its ladder. One
-- that has ended starts a new ladder. One in flight is left alone.
-- needs: common(at_now, call, created_at, expires_at, first_write, floor, format, kept_record, lane_of,
--   marked_delivered, match, now, num, split, sure, tag), tenant(origin_and_tenant), limits(limits_of),
--   lane_state(all_paused, lanes, load_lanes), progress(job_of_progress, parse_progress, progress_text, sending_job,
--   waiting_status, with_beside, with_job, with_success, without_snoozes), sums(count, count_dead, log_line, sums),
--   finish(finish), ends(count_job_ends, ends_with_lane), order(join_line, line_of, push_ready, set_ahead_of),
--   expiry(set_expiry, watch_expiry), job(DONE_BEFORE, PASSED, accepted_since, count_code, job_slots, parse_job,
--   read_job, write_job)
--
-- ARGV[3] again  1: delivered ones are sent again
-- ARGV[4] job    a job that calls, as job.lua reads it; empty: a person does
-- ARGV[5] by     the name of the caller's key, empty if that is not known
-- ARGV[6] count  number of instances' names that follow
-- ARGV[7..]      names, then deliveries
-- returns now, due, weight, of a job its text (empty: the turn is another's, and nothing changed), then for each: 1 ready
--   now, or in line for it, 0 was so already, -1 not kept, -2 an attempt is under way, -3 and -4 its lane takes nothing:
--   disabled (or it was accepted before the cut), deleted; -5 delivered, -6 expired, -7 others of its key go first, -8 the
--   job had it before, -9 its lane takes no more now; of a job that probes 3 ready as the first of its lane, -11 the first one
--   of its lane failed, -12 its lane is paused, -13 no more lanes are probed
local resend, job, k = ARGV[3] == '1', parse_job(ARGV[4]), tonumber(ARGV[6])
local asked_by = ARGV[5] ~= '' and ',' .. string.gsub(ARGV[5], '%s', '_') or '' -- behind the reason of its line
local holders, deliveries, names = {}, {}, {}
for i = 7, 6 + k do holders[#holders + 1] = ARGV[i] end
for i = 7 + k, #ARGV do
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

-- under_way are the deliveries with an attempt under way. Each instance with leases is asked once for all deliveries.
local under_way = {}
for _, name in ipairs(holders) do
  if call('EXISTS', LEASES .. name) == 1 then
    for i, score in ipairs(sure('ZMSCORE', LEASES .. name, unpack(deliveries))) do
      if score then under_way[deliveries[i]] = true end
    end
  end
end

for i, ends in ipairs(sure('ZMSCORE', TAKEN, unpack(deliveries))) do
  if ends then under_way[deliveries[i]] = true end
end

-- done are the ms when delivered ones ended. dues are the ms when others are due.
local done, dues = sure('ZMSCORE', DONE, unpack(deliveries)), sure('ZMSCORE', DUE, unpack(deliveries))

-- status_of_end returns the status of a first success from its score in :done.
local function status_of_end(score)
  local status = floor(tonumber(score) % 1 * 1000 + 0.5)
  return status > 200 and status < 500 and status or 200
end

-- ended_before takes a delivery out of the place where it ended and returns its progress with a new ladder, and its
-- attempts so far. It returns nil if the delivery has not ended.
local function ended_before(delivery, l, text, done_at)
  local attempts, _, _, status, _, reason, more = parse_progress(text)
  more = without_snoozes(more)
  if sure('ZREM', DEAD, delivery) == 1 then
    count('dead', -1)
    count_dead(l.name, reason, -1)
  elseif sure('ZREM', CANCELLED, delivery) == 1 then
    count('cancelled', -1)
  elseif sure('ZREM', DONE, delivery) == 1 then
    count('delivered', -1)
    if not text then attempts, status = 1, status_of_end(done_at) end -- settle writes no entry for the most common end
    more = with_success(more, done_at, status, attempts)
  else
    return nil
  end
  return progress_text(attempts, attempts, 0, status, 1, '-', with_job(job, with_beside(more, 0), true)), attempts
end

-- interrupted is a due time as :progress keeps it. 0 and 1 mean something else there, and a malformed time counts as
-- long ago.
local LATEST = 253402300799999 -- ms: the end of the year 9999
local function interrupted(score)
  local at = tonumber(score)
  return at > 2 and at <= LATEST and floor(at) or 2
end

-- again makes ready a delivery that waits for its time or has ended. It goes to the end of its line, if it has one.
local function again(delivery, l, id, record, i)
  local text = sure('HGET', PROGRESS, delivery)
  if sure('ZREM', DUE, delivery) == 1 then
    local attempts, base, deaths, status, asked, _, more = parse_progress(text)
    local due = asked > 0 and asked or interrupted(dues[i]) -- a suspect that claim had wait may be asked for already
    l.waiting = l.waiting - 1
    count(waiting_status(text), -1)
    if sending_job(text) then count_job_ends(4, { at_now, delivery }) end
    sure('HSET', PROGRESS, delivery, progress_text(attempts, base, deaths, status, due, '-', with_job(job, more, true)))
    push_ready(l, now, id)
    log_line(delivery, 'resent', 0, 0, attempts, num(due) .. asked_by)
    return 1
  end
  local anew, attempts = ended_before(delivery, l, text, done[i])
  if not anew then return set_ahead_of(l, id, record) and -7 or 0 end
  log_line(delivery, 'resent', 0, 0, attempts, 'anew' .. asked_by)
  watch_expiry(delivery, record)
  sure('HSET', PROGRESS, delivery, anew)
  local key = line_of(l, record)
  if not key or join_line(l, key, id) then
    push_ready(l, now, id)
  else
    l.waiting = l.waiting + 1
    count('scheduled', 1)
  end
  return 1
end

-- uncut takes away the cut of a lane that was given up, as its resume does: somebody asks for an attempt there again.
local function uncut(l)
  l.limits = limits_of('', nil)
  l.place = true
  sure('HDEL', LIMITS, l.name)
  sure('HDEL', HELD, l.name)
end

local wholes = {}

-- retry returns the code of one delivery. It reports a delivered one first, because no other reason matters then.
local function retry(delivery, l, id, i)
  local record = kept_record(l.name, id, wholes)
  if not record then return -1 end
  local mark = sure('HGET', MARKS, delivery)
  if not resend and (done[i] or marked_delivered(mark)) then return -5 end
  local cut = l.limits.cut and created_at(record) <= l.limits.cut
  if cut and (done[i] or sure('ZSCORE', DEAD, delivery) or sure('ZSCORE', CANCELLED, delivery)) then uncut(l) end
  if ends_with_lane(l, id, record) then return l.limits.held == 'x' and -4 or -3 end
  if marked_delivered(mark) then return -2 end
  if under_way[delivery] and not mark then return -2 end
  local expiry = expires_at(record)
  if expiry > 0 and expiry <= now and not under_way[delivery] then return -6 end
  if mark then
    sure('HDEL', MARKS, delivery)
    log_line(delivery, 'resent', 0, 0, (parse_progress(sure('HGET', PROGRESS, delivery))), '-' .. asked_by)
    return 1
  end
  if not l.text then l.leads = origin_and_tenant(record) end
  return again(delivery, l, id, record, i)
end

local probes = {} -- lane -> what :jobs has of its probe
-- A job that probes has a text for each lane in :jobs. A lane without a text was not probed yet.
local MOST_PROBED, PROBE_LASTS = 4096, 3600000 -- lanes of a job here; ms
local LOOK_BACK = 1000 -- newest successes here that are looked through
local PROBE, PROBE_FAILED, HELD_BACK, UNPROBED = 3, -11, -12, -13
if job and job.probes then
  local seen, fields = {}, {}
  for _, name in ipairs(names) do
    if not seen[name] then
      seen[name], seen[#seen + 1], fields[#fields + 1] = true, name, job.number .. ' probe ' .. name
    end
  end
  for i, text in ipairs(sure('HMGET', JOBS, unpack(fields))) do probes[seen[i]] = text or nil end
end
local function set_probe(l, text)
  probes[l.name] = text
  sure('HSET', JOBS, job.number .. ' probe ' .. l.name, text)
end

-- succeeded_since reports whether any delivery of a lane was delivered since the job began, as far as that can be seen. Then the
-- lane fails no more, or it is among the newest successes.
local recent -- the lanes of the newest successes, read once
local function succeeded_since(l, failing)
  if failing > 0 and l.state.failing == 0 then return true end
  if not recent then
    recent = {}
    for _, delivery in ipairs(sure('ZREVRANGEBYSCORE', DONE, '+inf', num(job.since), 'LIMIT', 0, LOOK_BACK)) do
      recent[lane_of(delivery)] = true
    end
  end
  return recent[l.name] or false
end

-- outcome_of returns ok or failed of the delivery that was sent first, gone if that says nothing, nil if it is not known
-- yet.
local function outcome_of(l, text)
  local at, before, failing, id = match(text, '^(%d+) (%d+) (%d+) (.*)$')
  if not at then return 'gone' end
  local probe = l.name .. ':' .. id
  local tried = parse_progress(sure('HGET', PROGRESS, probe)) > tonumber(before)
  if sure('ZSCORE', DONE, probe) or succeeded_since(l, tonumber(failing)) then return 'ok' end
  if not kept_record(l.name, id, wholes) then return 'gone' end
  if sure('ZSCORE', CANCELLED, probe) then return tried and 'failed' or 'gone' end
  if sure('ZSCORE', DEAD, probe) or tried and sure('ZSCORE', DUE, probe) then return 'failed' end
  return now - tonumber(at) > PROBE_LASTS and 'failed' or nil
end

-- judged returns the code of a delivery that has to wait for the one that was sent first, or that is left because of it. It
-- returns nil if the delivery may be sent.
local function judged(l)
  if l.limits.held == 'p' or all_paused then return HELD_BACK end
  local text = probes[l.name]
  if text and text ~= 'ok' and text ~= 'failed' then
    local outcome = not l.probing and outcome_of(l, text)
    if not outcome then
      l.probing = true -- its other deliveries of this call need not ask again
      return PASSED
    end
    if outcome == 'gone' then probes[l.name] = nil else set_probe(l, outcome) end
  end
  text = probes[l.name]
  if text then return text == 'failed' and PROBE_FAILED or nil end
  if now - job.since > PROBE_LASTS then
    set_probe(l, 'failed')
    return PROBE_FAILED
  end
  return tonumber(sure('HGET', JOBS, job.number .. ' probes') or 0) >= MOST_PROBED and UNPROBED or nil
end

-- sent_first notes which delivery of its lane was sent first.
local function sent_first(l, id, text)
  if sure('HEXISTS', JOBS, job.number .. ' probe ' .. l.name) == 0 then sure('HINCRBY', JOBS, job.number .. ' probes', 1) end
  set_probe(l, format('%s %d %s %s', at_now, (parse_progress(text)), num(l.state.failing), id))
  return PROBE
end

-- replay is retry for a job. It leaves deliveries that ended since the job began, or were accepted since if it takes waiting
-- ones. It leaves deliveries that it had before, also if the clock went back. A delivery that can't be retried is recorded too, so
-- that the job counts it once. A delivery that waits for another job stays with that job.
local places = job and sure('ZMSCORE', tag .. ':' .. job.index, unpack(deliveries))
local function replay(delivery, l, id, i)
  local record = (not places[i] or job.index == 'due') and kept_record(l.name, id, wholes)
  local text = sure('HGET', PROGRESS, delivery)
  if job_of_progress(text) == job.number then return DONE_BEFORE end
  if not places[i] then return record and 0 or -1 end
  if job.index ~= 'due' then
    if tonumber(places[i]) > job.since then return 0 end
  elseif record and accepted_since(job, record) then
    return DONE_BEFORE
  end
  local code = job.probes and judged(l) or nil
  if not code and job_slots(l) < 1 then code = PASSED end
  if code == PASSED then return code end
  code = code or retry(delivery, l, id, i)
  if code == 1 and job.probes and not probes[l.name] then code = sent_first(l, id, text) end
  if code < -1 and sending_job(text) then return DONE_BEFORE end
  if code < -1 then
    local attempts, base, deaths, status, asked, reason, more = parse_progress(text)
    if not text and job.index ~= 'due' then attempts, status = 1, status_of_end(places[i]) end
    sure('HSET', PROGRESS, delivery, progress_text(attempts, base, deaths, status, asked, reason, with_job(job, more)))
  end
  return code
end

local codes = {}
for i, delivery in ipairs(deliveries) do
  local lane, id = split(delivery)
  codes[i] = job and count_code(job, replay(delivery, lanes[lane], id, i), delivery) or retry(delivery, lanes[lane], id, i)
end
if #sums.watched > 0 then set_expiry() end
local told = job and write_job(job)
if job then sure('HSET', JOBS, 'sent', at_now) end
local t, d, w = finish()
return { t, d, w, told or '', unpack(codes) }
