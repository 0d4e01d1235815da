-- settle: record the outcomes of attempts. Without the lease only a success counts, and only if the delivery has not ended.
-- needs: common(at_now, by, call, find, first_write, floor, in_chunks, kept_record, lane_of, marked_delivered, num,
--   read_fields, split, sub, sure, tag, write_log), lane_state(lanes, load_lanes, loaded), progress(parse_progress,
--   sending_job), sums(append_pair, count, sums), finish(finish), ends(ended, write_ends), order(leave_line),
--   outcome(LEASED, NUMBER, VERDICT, WAIT, opened, record_success, widen), verdict(attempted, fronts, late_marks,
--   not_due, rung_dues, settle_late, settle_leased, unopened, written)
--
-- ARGV[3]   number of entries for :attempts, then of each: number of lines, lines, evidence. Together they have a line for
--           each outcome
-- ARGV[..]  a character for each outcome: of a first success its latency class, and - of any other
-- ARGV[..]  three digits for each outcome: the status of a first success, 000 of any other. Empty: each of these has 200
-- ARGV[..]  for each outcome: delivery, and behind it, but of a first success: verdict (d delivered, r retry, x dead, b back,
--           w back, and it alone waits for a key, z snooze: it waits, and no attempt counts), latency class, status (0: no
--           response), ms (r, w, z: wait; b: since when it was ready), number of the attempt (0: there was none), reason (x; else -), meta, excerpt (both empty: nothing
--           for the history), blame, ms of the lease (without an attempt settle needs that very lease; 0: any). Blame: the
--           ms for which the lane waits; ! before it if the failure counts for its breaker and the lane fails, ? if the lane
--           only fails, then , and the ms after which the lane is given up; e behind it if our own network failed; or ~ and
--           a letter as :lane has it if no receiver is to blame; with ~e the lane waits for our own network
-- returns now, due, weight, breakers (lane, ms until when it waits, 0 closed, for each that opened or closed), a digit for
--   each outcome: 1 done as requested, 2 late, and nothing changed, 3 late but counted, 4 ended otherwise, or by its lane, 5
--   nothing changed, because the delivery died of this very outcome when that was settled before; then for each lane that
--   fails, or did: lane, ms since when, 0 it fails, 1 it failed long enough to be given up, 2 an attempt succeeded
--
-- No delivery comes twice in one call. A first success has one argument only, because the arguments are the dearest part here.
-- A call of which all is usual was settled by quick_settle before, so a change of a rule here may be one there too.
local place = 6 + 3 * tonumber(ARGV[3]) -- in ARGV, of the first outcome
local classes, statuses = ARGV[place - 2] or '', ARGV[place - 1]
local many = #classes
local deliveries, each, run_lanes = {}, {}, {} -- run_lanes: the lanes, each once for outcomes of one lane behind each other

-- What is known of each outcome: at, its place in ARGV, where its values are read; lane; plain, a first success; leased, by the
-- caller; kept, the record of one that is not leased and may count.
do
  local WIDTH = 11 -- values of an outcome
  local i, lane, prefix = place, nil, nil
  for k = 1, many do
    local delivery, plain = ARGV[i], sub(classes, k, k) ~= '-'
    deliveries[k] = delivery
    if not prefix or find(delivery, prefix, 1, true) ~= 1 then
      lane = lane_of(delivery)
      prefix = lane .. ':'
      run_lanes[#run_lanes + 1] = lane
    end
    each[k] = { at = i, lane = lane, plain = plain, leased = false, kept = false }
    i = i + (plain and 1 or WIDTH)
  end
end
if many == 0 then
  local t, d, w = finish()
  return { t, d, w, {}, '' }
end
load_lanes(run_lanes)
sums.whole = call('EXISTS', tag, MARKS, TOKENS, EXPIRING, JOBS, UNOPENED) == 0
if sums.whole then sums.leased = false end
local marks, texts = sums.whole and NONE or read_fields(MARKS, deliveries), read_fields(PROGRESS, deliveries)
local leases = call('ZMSCORE', LEASES .. by, unpack(deliveries))
local leased = {}

-- An outcome may be repeated because its response was lost, after the same instance has claimed the delivery again. Then its
-- attempt was counted already, and the lease is another one. After a late success of another attempt the numbers say nothing,
-- but that delivery has ended anyhow. Without an attempt the time of the lease decides, because two instances could attempt a
-- delivery at once if it was handed back twice.
do
  local wholes = {}
  for k, o in ipairs(each) do
    local text, older = texts[k], false
    if text and not marked_delivered(marks[k]) then
      local number = o.plain and 1 or tonumber(ARGV[o.at + NUMBER])
      older = number > 0 and number <= (parse_progress(text))
    end
    if leases[k] and not o.plain and ARGV[o.at + NUMBER] == '0' then
      local leased_at = tonumber(ARGV[o.at + LEASED])
      older = leased_at > 0 and leased_at ~= floor(tonumber(leases[k]))
    end
    o.leased = leases[k] and not older
    if o.leased then leased[#leased + 1] = deliveries[k] end
  end
  for k, o in ipairs(each) do -- a late success counts if its delivery is still kept, and no other success ends it
    if not o.leased and not marked_delivered(marks[k]) and (o.plain or ARGV[o.at + VERDICT] == 'd') then
      local _, id = split(deliveries[k])
      o.kept = kept_record(o.lane, id, wholes)
    end
  end
end

first_write(false, sums.whole and #leased > 0)
in_chunks('ZREM', LEASES .. by, leased)

-- append_waits appends to an entry of :attempts the due times of its deliveries that wait for their next rung, and their jobs,
-- for each run of one job. An attempt whose number was counted before was made before the job sent the delivery.
local function append_waits(fields, first, last)
  local due, runs, before = {}, {}, nil
  for line = first, last do
    local o, job = each[line], sending_job(texts[line])
    if o.due then due[#due + 1] = num(o.due) end
    if job then
      local number = o.plain and 1 or tonumber(ARGV[o.at + NUMBER])
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
  if #due > 0 then append_pair(fields, 'n', table.concat(due, ' ')) end
  if #runs > 0 then append_pair(fields, 'j', table.concat(runs, ' ')) end
end

-- score_of returns the score in :done of a first success, by its status. Each score is made once, because Lua formats a number
-- slowly.
local score_of
do
  local scores = { ['200'] = at_now }
  function score_of(k)
    if statuses == '' then return at_now end
    local status = sub(statuses, 3 * k - 2, 3 * k)
    scores[status] = scores[status] or at_now .. '.' .. status
    return scores[status]
  end
end

-- succeed changes the state of a lane by a first success, the outcome k.
local function succeed(l, k)
  l.flying = l.flying - 1
  if not l.limits.pull then
    l.slow = tonumber(sub(classes, k, k))
    widen(l)
  end
  record_success(l)
end

-- settle_each settles the outcomes, and writes where their deliveries wait now. It returns the codes, and whether one of the
-- outcomes changed something.
local function settle_each()
  -- with_all_values gives a first success all its values if it is not settled the short way.
  local function with_all_values(k)
    local at = each[k].at
    if not each[k].plain then return at end
    local from_here = #ARGV + 1
    for offset, value in ipairs({ ARGV[at], 'd', sub(classes, k, k), statuses == '' and '200' or sub(statuses, 3 * k - 2, 3 * k), '0', '1', '-', '', '', '0', '0' }) do
      ARGV[from_here + offset - 1] = value
    end
    return from_here
  end

  local codes, news = {}, false
  for k, o in ipairs(each) do
    local l = lanes[o.lane]
    local code, over = '1', true
    if not o.leased then
      code, over = settle_late(with_all_values(k), l, texts[k], o.kept)
    elseif o.plain and not texts[k] and not marks[k] then
      succeed(l, k)
      append_pair(ended.done, score_of(k), deliveries[k])
    else
      code, over, o.due = settle_leased(with_all_values(k), l, texts[k], marks[k])
    end
    if l.state.keys > 0 and over then leave_line(l, sub(deliveries[k], #l.name + 2)) end
    codes[k] = code
    news = news or code ~= '2' and code ~= '5'
  end
  in_chunks('ZREM', DUE, not_due)
  in_chunks('ZADD', DUE, rung_dues)
  in_chunks('ZREM', UNOPENED, attempted)
  for _, delivery in ipairs(unopened) do sure('ZADD', UNOPENED, 'NX', at_now, delivery) end
  in_chunks('HSET', MARKS, late_marks)
  local failures = {}
  for _, l in ipairs(loaded) do
    if l.failed then append_pair(failures, l.name, sub(l.failed, #l.name + 2)) end
  end
  in_chunks('HSET', FAILURES, failures)
  for f = #fronts, 1, -1 do -- the last one goes to the head first, so that the order of the call stays
    local lane, id = split(ARGV[fronts[f]])
    local l = lanes[lane]
    l.ready = sure('LPUSH', READY .. lane, num(ARGV[fronts[f] + WAIT]) .. ':' .. id) -- a late success may have counted it before
    if l.ready == 1 then l.place = true end
  end
  return table.concat(codes), news
end

local codes, news = settle_each()

-- The lines of the outcomes are logged, each with its code, before the ends are written, because this entry shows whether the
-- clock was set back.
if news then
  local first = 1
  for k = 4, place - 3, 3 do
    local last = first + tonumber(ARGV[k]) - 1
    local fields = { 'l', ARGV[k + 1], 'c', sub(codes, first, last), 'e', ARGV[k + 2] }
    append_waits(fields, first, last)
    write_log(unpack(fields))
    first = last + 1
  end
end
count('in_flight', -#leased)
count('delivered', written + #ended.done / 2)
count('ready', #fronts)
sums.readied = #fronts > 0
write_ends()
local answer = { 0, 0, 0, {} }
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
