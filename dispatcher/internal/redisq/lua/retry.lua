-- retry: make deliveries ready at once. An attempt of one that waits for its time does not count on its ladder. One
-- that has ended starts a new ladder. One in flight is left alone.
--
-- ARGV[3] again  1: what was delivered is sent again
-- ARGV[4] job    a job that calls, as job.lua reads it; empty: a person does
-- ARGV[5] who    asks: the name of a key, or empty where that is not known
-- ARGV[6] count  number of instances' names that follow
-- ARGV[7..]      names, then deliveries
-- returns now, due, weight, of a job its text (empty: the turn is another's, and nothing changed), then for each: 1 ready
--   now, or in line for it, 0 was so already, -1 not kept, -2 an attempt is under way, -3 and -4 its lane takes nothing:
--   disabled (or what was accepted by then ends), deleted; -5 delivered, -6 expired, -7 others of its key go first, -8 the
--   job had it before, -9 its lane takes no more now
local resend, job, k = ARGV[3] == '1', job_of(ARGV[4]), tonumber(ARGV[6])
local asked_by = ARGV[5] ~= '' and ',' .. string.gsub(ARGV[5], '%s', '_') or '' -- behind the reason of its line
local instances, deliveries, names = {}, {}, {}
for i = 7, 6 + k do instances[#instances + 1] = ARGV[i] end
for i = 7 + k, #ARGV do
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

-- under_way are the deliveries with an attempt under way. Each instance with leases is asked once for all deliveries.
local under_way = {}
for _, name in ipairs(instances) do
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

-- delivered_once adds to the text after progress when a delivery was first delivered, with its status and attempt. That
-- stays, whatever the resend brings.
local function delivered_once(more, at, status, number)
  return find(more, '^ %d+ %d+%+?$') and format('%s %s %d %d', more, ms_of(at), status, number) or more
end

-- ended_before takes a delivery out of the place where it ended and answers its progress with a new ladder, and its
-- attempts so far. It answers nil where the delivery has not ended.
local function ended_before(delivery, l, text, done_at)
  local attempts, _, _, status, _, reason, more = progress(text)
  if sure('ZREM', DEAD, delivery) == 1 then
    count('dead', -1)
    bury(l.name, reason, -1)
  elseif sure('ZREM', CANCELLED, delivery) == 1 then
    count('cancelled', -1)
  elseif sure('ZREM', DONE, delivery) == 1 then
    count('delivered', -1)
    if not text then attempts, status = 1, 200 end -- settle writes no entry for the most common end
    more = delivered_once(more, done_at, status, attempts)
  else
    return nil
  end
  return progressed(attempts, attempts, 0, status, 1, '-', with_job(job, besides(more, 0), true)), attempts
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
    local attempts, base, deaths, status, asked, _, more = progress(text)
    local due = asked > 0 and asked or interrupted(dues[i]) -- a suspect that claim had wait may be asked for already
    l.waiting = l.waiting - 1
    count(waits(text), -1)
    if owner(text) then conclude(4, { at_now, delivery }) end
    sure('HSET', PROGRESS, delivery, progressed(attempts, base, deaths, status, due, '-', with_job(job, more, true)))
    push(l, now, id)
    note(delivery, 'resent', 0, 0, attempts, num(due) .. asked_by)
    return 1
  end
  local anew, attempts = ended_before(delivery, l, text, done[i])
  if not anew then return stands_behind(l, id, record) and -7 or 0 end
  note(delivery, 'resent', 0, 0, attempts, 'anew' .. asked_by)
  watch(delivery, record)
  sure('HSET', PROGRESS, delivery, anew)
  local key = line(l, record)
  if not key or join(l, key, id) then
    push(l, now, id)
  else
    l.waiting = l.waiting + 1
    count('scheduled', 1)
  end
  return 1
end

-- uncut takes away the cut of a lane that was given up, as its resume does: somebody asks for an attempt there again.
local function uncut(l)
  l.limits = DEFAULTS.none
  l.place = true
  sure('HDEL', LIMITS, l.name)
  sure('HDEL', HELD, l.name)
end

local wholes = {}

-- retry answers the code of one delivery. It reports a delivered one first, since no other reason matters then.
local function retry(delivery, l, id, i)
  local record = exists(l.name, id, wholes)
  if not record then return -1 end
  local mark = sure('HGET', MARKS, delivery)
  if not resend and (done[i] or delivers(mark)) then return -5 end
  local cut = l.limits.cut and created(record) <= l.limits.cut
  if cut and (done[i] or sure('ZSCORE', DEAD, delivery) or sure('ZSCORE', CANCELLED, delivery)) then uncut(l) end
  if ends_with(l, id, record) then return l.limits.held == 'x' and -4 or -3 end
  if delivers(mark) then return -2 end
  if under_way[delivery] and not mark then return -2 end
  local expiry = expires(record)
  if expiry > 0 and expiry <= now and not under_way[delivery] then return -6 end
  if mark then
    sure('HDEL', MARKS, delivery)
    note(delivery, 'resent', 0, 0, (progress(sure('HGET', PROGRESS, delivery))), '-' .. asked_by)
    return 1
  end
  if not l.text then l.leads = leads_to(record) end
  return again(delivery, l, id, record, i)
end

-- replay is retry for a job. It leaves what ended since the job began, or was accepted since where it takes what waits. It
-- leaves what the job had before, also if the clock went back. What can't be retried is noted too, so that the job counts
-- it once. A delivery that waits for another job stays that one's.
local places = job and sure('ZMSCORE', tag .. ':' .. job.index, unpack(deliveries))
local function replay(delivery, l, id, i)
  local record = (not places[i] or job.index == 'due') and exists(l.name, id, wholes)
  if not places[i] then return record and 0 or -1 end
  local text = sure('HGET', PROGRESS, delivery)
  if job_in(text) == job.number then return DONE_BEFORE end
  if job.index ~= 'due' then
    if tonumber(places[i]) > job.since then return 0 end
  elseif record and created(record) > job.since then
    return DONE_BEFORE
  end
  if slots_of(l) < 1 then return PASSED end
  local code = retry(delivery, l, id, i)
  if code < -1 and owner(text) then return DONE_BEFORE end
  if code < -1 then
    local attempts, base, deaths, status, asked, reason, more = progress(text)
    if not text and job.index ~= 'due' then attempts, status = 1, 200 end
    sure('HSET', PROGRESS, delivery, progressed(attempts, base, deaths, status, asked, reason, with_job(job, more)))
  end
  return code
end

local codes = {}
for i, delivery in ipairs(deliveries) do
  local lane, id = parts(delivery)
  codes[i] = job and counted(job, replay(delivery, lanes[lane], id, i), delivery) or retry(delivery, lanes[lane], id, i)
end
if #sums.watched > 0 then set_expiry() end
local told = job and keep_job(job)
if job then sure('HSET', JOBS, 'sent', at_now) end
local t, d, w = finish()
return { t, d, w, told or '', unpack(codes) }
