-- settle: record the outcomes of attempts. Without the lease only a success counts, and only if the delivery has not ended.
-- needs: common(at_now, by, call, first_write, floor, in_chunks, kept_record, lane_of, marked_delivered, num,
--   read_fields, split, sub, sure), lane_state(lanes, load_lanes, loaded), progress(parse_progress, sending_job),
--   sums(append_pair, count, sums, write_log), finish(finish), ends(ended, write_ends), order(leave_line),
--   outcome(LEASED, NUMBER, VERDICT, WAIT, class_of, opened, record_success, widen), verdict(attempted, fronts,
--   late_marks, not_due, rung_dues, settle_late, settle_leased, unopened, written)
--
-- ARGV[3]   number of entries for :attempts, then of each: number of lines, lines, evidence. Together they have a line for
--           each outcome
-- ARGV[..]  for each outcome: delivery, verdict (d delivered, r retry, x dead, b back, w back, and it alone waits for a key),
--           took ms, status (0: no response), ms (r, w: wait; b: since when it was ready), number of the attempt (0: there was none), reason (x; else -), meta,
--           excerpt (both empty: nothing for the history), blame, ms of the lease (without an attempt settle needs that very
--           lease; 0: any). Of a first success with the status 200 only delivery, took ms; with a status from 201 to 499 this
--           number is -(took ms * 1000 + status). Blame: the ms for which the lane waits; ! before it if the failure counts
--           for its breaker and the lane fails, ? if the lane only fails, then , and the ms after which the lane is given
--           up; e behind it if our own network failed; or ~ and a letter as :lane has it if no receiver is to blame; with
--           ~e the lane waits for our own network
-- returns now, due, weight, breakers (lane, ms until when it waits, 0 closed, for each that opened or closed), a digit for
--   each outcome: 1 done as requested, 2 late, and nothing changed, 3 late but counted, 4 ended otherwise, or by its lane, 5
--   nothing changed, because the delivery died of this very outcome when that was settled before; then for each lane that
--   fails, or did: lane, ms since when, 0 it fails, 1 it failed long enough to be given up, 2 an attempt succeeded
--
-- No delivery comes twice in one call. A first success has two arguments only, because the arguments are the dearest part here.
local deliveries, names, first_of = {}, {}, {} -- of each outcome; first_of: its place in ARGV
local plain, statuses = {}, {} -- ms of the attempt if it was a first success, else false; and its status, nil for 200
local many = 0

-- read_outcomes reads where each outcome begins. Its values are read in place.
local function read_outcomes()
  local PLAIN, WIDTH = 2, 11 -- values of an outcome
  local i = 4 + 3 * tonumber(ARGV[3])
  while ARGV[i] do
    local delivery, took = ARGV[i], tonumber(ARGV[i + 1])
    many = many + 1
    if took and took < 0 then
      statuses[many] = -took % 1000
      took = floor(-took / 1000)
    end
    deliveries[many], first_of[many], plain[many] = delivery, i, took or false
    names[many] = lane_of(delivery)
    i = i + (took and PLAIN or WIDTH)
  end
end
read_outcomes()
if many == 0 then
  local t, d, w = finish()
  return { t, d, w, {}, '' }
end
load_lanes(names)
local marks, texts = read_fields(MARKS, deliveries), read_fields(PROGRESS, deliveries)

-- An outcome may be repeated because its response was lost, after the same instance has claimed the delivery again. Then its
-- attempt was counted already, and the lease is another one. After a late success of another attempt the numbers say nothing,
-- but that delivery has ended anyhow. Without an attempt the time of the lease decides, because two instances could attempt a
-- delivery at once if it was handed back twice.
local leased_here, leased, nleased = {}, {}, 0
for k, score in ipairs(call('ZMSCORE', LEASES .. by, unpack(deliveries))) do
  local text, older = texts[k], false
  if text and not marked_delivered(marks[k]) then
    local number = plain[k] and 1 or tonumber(ARGV[first_of[k] + NUMBER])
    older = number > 0 and number <= (parse_progress(text))
  end
  if score and not plain[k] and ARGV[first_of[k] + NUMBER] == '0' then
    local leased_at = tonumber(ARGV[first_of[k] + LEASED])
    older = leased_at > 0 and leased_at ~= floor(tonumber(score))
  end
  if score and not older then
    nleased = nleased + 1
    leased_here[k], leased[nleased] = true, deliveries[k]
  end
end

-- A late success counts if its delivery is still kept, and no other success ends it.
local kept = {}
if nleased < many then
  local wholes = {}
  for k, delivery in ipairs(deliveries) do
    if not leased_here[k] and not marked_delivered(marks[k]) and (plain[k] or ARGV[first_of[k] + VERDICT] == 'd') then
      local _, id = split(delivery)
      kept[k] = kept_record(names[k], id, wholes)
    end
  end
end

first_write()
in_chunks('ZREM', LEASES .. by, leased)

-- with_all_values gives a plain outcome all its values if it is not settled the short way.
local function with_all_values(k)
  local i = first_of[k]
  if not plain[k] then return i end
  local from_here = #ARGV + 1
  for offset, value in ipairs({ ARGV[i], 'd', num(plain[k]), num(statuses[k] or 200), '0', '1', '-', '', '', '0', '0' }) do
    ARGV[from_here + offset - 1] = value
  end
  return from_here
end

-- jobs_of names the jobs to which the deliveries of some lines belong, for each run of one job. An attempt whose number was
-- counted before was made before the job sent the delivery.
local function jobs_of(first, last)
  local runs, before = {}, nil
  for line = first, last do
    local job = sending_job(texts[line])
    if job then
      local number = plain[line] and 1 or tonumber(ARGV[first_of[line] + NUMBER])
      if number <= (parse_progress(texts[line])) then job = nil end
    end
    if job and job == before then
      runs[#runs - 1] = runs[#runs - 1] + 1
    elseif job then
      append_pair(runs, line - first, 1)
      runs[#runs + 1] = job
    end
    before = job
  end
  return table.concat(runs, ' ')
end

-- write_entries logs the lines of the outcomes, each with its code, and the due times of deliveries that wait for their next rung.
local nexts = {} -- due time by line
local function write_entries(codes)
  local first = 1
  for k = 4, 1 + 3 * tonumber(ARGV[3]), 3 do
    local last = first + tonumber(ARGV[k]) - 1
    local due = {}
    for line = first, last do
      if nexts[line] then due[#due + 1] = num(nexts[line]) end
    end
    local fields, jobs = { 'l', ARGV[k + 1], 'c', sub(codes, first, last), 'e', ARGV[k + 2] }, jobs_of(first, last)
    if #due > 0 then append_pair(fields, 'n', table.concat(due, ' ')) end
    if jobs ~= '' then append_pair(fields, 'j', jobs) end
    write_log(unpack(fields))
    first = last + 1
  end
end

-- score_of returns the score in :done of a first success, by its status, nil for 200. Its texts are made once, because Lua
-- formats a number slowly.
local scores = {}
local function score_of(status)
  if not status then return at_now end
  scores[status] = scores[status] or at_now .. '.' .. status
  return scores[status]
end

local answer, codes, news = { 0, 0, 0, {} }, {}, false
for k = 1, many do
  local l = lanes[names[k]]
  local code, over = '1', true
  if not leased_here[k] then
    code, over = settle_late(with_all_values(k), l, texts[k], kept[k])
  elseif plain[k] and not texts[k] and not marks[k] then
    l.flying = l.flying - 1
    if not l.limits.pull then
      l.slow = class_of(plain[k])
      widen(l)
    end
    record_success(l)
    append_pair(ended.done, score_of(statuses[k]), deliveries[k])
  else
    local due
    code, over, due = settle_leased(with_all_values(k), l, texts[k], marks[k])
    nexts[k] = due
  end
  if l.state.keys > 0 and over then leave_line(l, sub(deliveries[k], #names[k] + 2)) end
  codes[k] = code
  news = news or code ~= '2' and code ~= '5'
end
codes = table.concat(codes)
if news then write_entries(codes) end -- before the ends are written, because this entry shows whether the clock was set back
count('in_flight', -#leased)
count('delivered', written + #ended.done / 2)
count('ready', #fronts)
sums.readied = #fronts > 0

in_chunks('ZREM', DUE, not_due)
in_chunks('ZADD', DUE, rung_dues)
in_chunks('ZREM', UNOPENED, attempted)
for _, delivery in ipairs(unopened) do sure('ZADD', UNOPENED, 'NX', at_now, delivery) end
in_chunks('HSET', MARKS, late_marks)
write_ends()
-- The last one handed back goes to the head first, so that the order of the call stays.
for f = #fronts, 1, -1 do
  local i = fronts[f]
  local lane, id = split(ARGV[i])
  if sure('LPUSH', READY .. lane, num(ARGV[i + WAIT]) .. ':' .. id) == 1 then lanes[lane].place = true end
end
for _, l in ipairs(opened) do
  local till = l.state.till -- later than the time of the breaker if the receiver asked for more
  append_pair(answer[4], l.name, num(till > 0 and till or l.opened_at))
end
answer[1], answer[2], answer[3] = finish()
answer[5], answer[6] = codes, {}
for _, l in ipairs(loaded) do
  if l.closed then append_pair(answer[4], l.name, 0) end
  if l.recovered then
    append_pair(answer[6], l.name, num(l.recovered))
    append_pair(answer[6], 2)
  end
  if l.reported then
    append_pair(answer[6], l.name, num(l.since))
    append_pair(answer[6], l.reported)
  end
end
return answer
