-- job: the counts of a job that calls retry, cancel or purge, in the same step as the change of the deliveries. So no crash
-- loses a count or adds it twice. It is put behind order, before these scripts. It takes no arguments of its own: ARGV[3..] is the script's.
-- needs: common(created_at, format, match, now, sure), lane_state(all_paused, ready_length), slots(lane_ends, slots)
--
-- A job's text in :jobs is "turn since matched done failed left passed cursor". turn: the instance with this number may do
-- the next step; it grows if the job is stopped or another instance takes it over. since: ms when the job began here; it has
-- no delivery that ended later. left: the deliveries that had changed before the job came to them. passed: the deliveries that
-- it skipped since it last began at the first. cursor: as the caller wrote it.
local DONE_BEFORE, PASSED = -8, -9 -- codes: the job had it before; its lane takes no more now
local READY_LEAST = 64 -- ready deliveries up to which a job adds to a lane of any window

-- parse_job reads "number turn index passed named probes cursor", an argument of the script; nil if no job calls. named: how
-- many more of its failures it lists by name.
local function parse_job(text)
  local number, turn, index, passed, named, probes, cursor = match(text, '^(%d+) (%d+) (%a+) (%d+) (%d+) ([01]) (.*)$')
  if not number then return nil end
  return {
    number = number, turn = turn, index = index, passed = tonumber(passed), named = tonumber(named), probes = probes == '1', cursor = cursor,
    since = 0, done = 0, failed = 0, failures = {}, left = 0, reasons = {},
  }
end

-- read_job reads how far a job is. It returns false if it is the turn of another instance.
local function read_job(job)
  local turn, since, matched, done, failed, left =
    match(sure('HGET', JOBS, job.number) or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) %d+ ')
  if turn ~= job.turn then return false end
  job.since, job.matched, job.had_done = tonumber(since), tonumber(matched), tonumber(done)
  job.had_failed, job.had_left = tonumber(failed), tonumber(left)
  return true
end

-- accepted_since reports whether a message was accepted after the job began. If it seems to be accepted more than a minute from
-- now, a clock that was ahead said so, and the job takes it.
local function accepted_since(job, record) -- rare
  local created = created_at(record)
  return created > job.since and created <= now + 60000
end

-- count_code adds a code to the sums of a job. A delivery is left if it has changed before the job
-- came to it: another job, a person or its attempt was faster. A delivery has failed if the job could not process it.
local FAILED = { [-1] = 'gone', [-3] = 'disabled', [-4] = 'deleted', [-6] = 'expired' }
local LEFT = { [0] = 'changed', [-2] = 'in_flight', [-5] = 'delivered', [-7] = 'order', [-11] = 'probe_failed', [-12] = 'held', [-13] = 'unprobed' }
local function count_code(job, code, delivery)
  local left = LEFT[code]
  if code == 1 or code == 3 then
    job.done = job.done + 1
  elseif left then
    job.left = job.left + 1
    job.reasons[left] = (job.reasons[left] or 0) + 1
  elseif FAILED[code] then
    job.failed = job.failed + 1
    if #job.failures < job.named then job.failures[#job.failures + 1] = FAILED[code] .. ' ' .. delivery end
  end
  return code
end

-- write_left_reasons adds up why deliveries were left, as "reason number" for each.
local function write_left_reasons(job)
  local field, words = job.number .. ' left', {}
  for reason, n in string.gmatch(sure('HGET', JOBS, field) or '', '(%S+) (%d+)') do
    job.reasons[reason] = (job.reasons[reason] or 0) + tonumber(n)
  end
  for reason, n in pairs(job.reasons) do words[#words + 1] = format('%s %.0f', reason, n) end
  sure('HSET', JOBS, field, table.concat(words, ' '))
end

-- write_job writes the sums and the cursor, and returns them as a text.
local function write_job(job)
  local done, failed, left = job.had_done + job.done, job.had_failed + job.failed, job.had_left + job.left
  local known = done + failed + left + job.passed
  local matched = job.cursor == '.' and known or math.max(job.matched, known)
  local text = format('%s %.0f %.0f %.0f %.0f %.0f %.0f %s', job.turn, job.since, matched, done, failed, left, job.passed, job.cursor)
  sure('HSET', JOBS, job.number, text)
  if job.left > 0 then write_left_reasons(job) end
  if #job.failures > 0 then
    local field = job.number .. ' failures'
    sure('HSET', JOBS, field, (sure('HGET', JOBS, field) or '') .. table.concat(job.failures, '\n') .. '\n')
  end
  return text
end

-- job_slots returns how many more ready deliveries a job may add to a lane. More would delay the deliveries that are published
-- now. A lane with an open breaker gets one, the probe, when its time has come.
local function job_slots(l)
  if lane_ends(l) then return 1 end -- the codes say why
  local s = l.state
  if l.limits.held == 'p' or all_paused or s.till > now then return 0 end
  local waiting = l.limits.ordered and math.max(ready_length(l), l.waiting) or ready_length(l)
  if s.opened > 0 then return 1 - waiting - l.flying end
  return math.max(READY_LEAST, 4 * slots(l)) - waiting
end
