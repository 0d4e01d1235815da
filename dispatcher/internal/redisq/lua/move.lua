-- move: make due deliveries ready, the earliest first. A lane with many that are due at one time gives way if more is
-- due than one call moves. The call takes a few of them, then due deliveries of other lanes, then more of that lane. It
-- also places the parked lanes whose time has come, and ends the ready lists of disabled and deleted endpoints, and
-- expired deliveries. Leases of consumers that have ended become the caller's, which counts them as failed attempts.
-- needs: common(by, call, first_write, floor, in_chunks, now, num, read_fields, score_ms, split, sub, sure),
--   lane_state(lanes, load_lanes), slots(lane_ends), progress(waiting_status), sums(count, sums), finish(before_parked,
--   finish), ends(ends_with_lane, write_ends), order(end_due_with_lane, end_ready), taken(LONGEST_LEASE, TIMER,
--   adopt_taken, set_timer), expiry(end_expired, set_expiry)
--
-- ARGV[3] most  most deliveries to move, most lanes to place, and most deliveries to end of ready lists
-- ARGV[4] bytes  most of heads of records to answer, but for one delivery
-- returns now, due, weight, then for each lease that ended: delivery, ms when it was taken, progress, head of the record;
--   "fenced" alone if some ended and the instance was declared dead
local batch, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local parked = before_parked > 0 and before_parked <= now
  and call('ZRANGEBYSCORE', PARKED, '-inf', now, 'LIMIT', 0, batch) or {}
local deliveries, owners, elements, groups, order = {}, {}, {}, {}, {}

-- choose fills these with due deliveries. Deliveries of a lane with one due time are together in :due, because Redis orders equal
-- scores by name. They are a run.
local function choose()
  local FEW = 4     -- deliveries of a run that go before other lanes
  local PAGE = 16   -- names that one read behind a run returns
  local READS = 128 -- reads behind runs, at most: 0.2 ms
  local due = call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, batch)
  local few = #due == batch and FEW or batch
  -- Redis takes longer to write a score than to find it. Mostly all of them are equal: then one is read.
  local scores, only = NONE, nil
  if #due > 0 then
    local ends = call('ZMSCORE', DUE, due[1], due[#due])
    if ends[1] == ends[2] then only = ends[1] else scores = call('ZMSCORE', DUE, unpack(due)) end
  end
  local run, run_lane, run_score, reads = 0, nil, nil, 0
  local passed = {} -- lanes with skipped deliveries: later ones have to stay behind these

  local function fits(score, lane)
    run = lane == run_lane and score == run_score and run + 1 or 1
    run_lane, run_score = lane, score
    if run > few then passed[lane] = true end
    return not passed[lane]
  end

  local picked, of_score, prefix = 0, nil, nil -- prefix: of the elements with that score
  local function pick(delivery, score, lane, id)
    picked = picked + 1
    deliveries[picked], owners[picked] = delivery, lane
    if not groups[lane] then
      groups[lane] = {}
      order[#order + 1] = lane
    end
    if score ~= of_score then of_score, prefix = score, score_ms(score) .. ':' end
    elements[picked] = prefix .. id
  end

  -- behind_run returns the rank behind the run, of which the delivery at a rank is one; nil after too many reads. Most
  -- often the run ends with its time.
  local function behind_run(rank)
    local low, high = rank, tonumber(call('ZCOUNT', DUE, '-inf', run_score))
    local probe = high - 1
    while high - low > 1 do
      if reads >= READS then return nil end
      reads = reads + 1
      local lane = split(call('ZRANGE', DUE, probe, probe)[1])
      if lane == run_lane then low = probe else high = probe end
      probe = floor((low + high) / 2)
    end
    return high
  end

  -- take_others takes due deliveries of other lanes from a rank on.
  local function take_others(rank)
    local page
    repeat
      if run > few then rank = behind_run(rank - 1) end
      if not rank then return end
      page = call('ZRANGE', DUE, rank, rank + PAGE - 1, 'WITHSCORES')
      reads = reads + 1
      for i = 1, #page, 2 do
        local lane, id = split(page[i])
        if tonumber(page[i + 1]) > now or picked == batch then return end
        if fits(page[i + 1], lane) then pick(page[i], page[i + 1], lane, id) end
      end
      rank = rank + #page / 2
    until #page < 2 * PAGE or reads >= READS
  end

  local left_out = {}
  for i, delivery in ipairs(due) do
    local lane, id = split(delivery)
    local score = only or scores[i]
    if fits(score, lane) then
      pick(delivery, score, lane, id)
    else
      left_out[#left_out + 1] = i
    end
  end
  if #left_out > 0 then take_others(batch) end
  for _, i in ipairs(left_out) do
    if picked == batch then break end
    pick(due[i], only or scores[i], split(due[i]))
  end
end
choose()
local timer = before_parked > 0 and tonumber(call('ZSCORE', PARKED, TIMER) or nil)
local some_end = timer and (timer <= now or timer > now + LONGEST_LEASE)
local expiry = before_parked > 0 and before_parked <= now and tonumber(call('ZSCORE', PARKED, '~expiring') or nil)
if #deliveries == 0 and #parked == 0 and not some_end then return { finish() } end
if some_end and call('ZSCORE', FENCED, by) then return { 'fenced' } end
local names, waiting = {}, {}
for i, lane in ipairs(order) do names[i] = lane end
for _, lane in ipairs(parked) do
  if lane ~= TIMER and lane ~= '~expiring' then
    names[#names + 1], waiting[#waiting + 1] = lane, lane
  end
end
load_lanes(names)

local texts = #deliveries > 0 and read_fields(PROGRESS, deliveries) or NONE
first_write()
in_chunks('ZREM', DUE, deliveries)
local scheduled = 0 -- without an attempt
for i, delivery in ipairs(deliveries) do
  local l = lanes[owners[i]]
  local id = (lane_ends(l) or l.limits.cut) and sub(delivery, #l.name + 2)
  if id and ends_with_lane(l, id) then
    end_due_with_lane(l, delivery, id, texts[i])
  else
    local list = groups[l.name]
    list[#list + 1] = elements[i]
    if texts[i] then count(waiting_status(texts[i]), -1) else scheduled = scheduled + 1 end
  end
end
if scheduled > 0 then count('scheduled', -scheduled) end
for _, lane in ipairs(order) do
  local l = lanes[lane]
  local n = #groups[lane]
  if n > 0 then
    l.ready = sure('RPUSH', READY .. lane, unpack(groups[lane]))
    count('ready', n)
    sums.readied = true
    if l.ready == n or l.ready > l.waiting then -- it was empty, or its count was lost: then it would not be placed
      l.place, l.waiting = true, math.max(l.waiting, l.ready)
    end
  end
end

local left = batch
for _, lane in ipairs(waiting) do
  local l = lanes[lane]
  l.place = true
  if lane_ends(l) and left > 0 then left = left - end_ready(l, left) end
end

-- end_leases takes over ended leases, and leases whose end, set by another clock, may never come.
local function end_leases(answer) -- rare
  local LEASES_MOST = 64 -- that one call takes over
  local list = sure('ZRANGEBYSCORE', TAKEN, '-inf', now, 'LIMIT', 0, LEASES_MOST)
  if #list < LEASES_MOST then
    local ahead = sure('ZRANGEBYSCORE', TAKEN, '(' .. num(now + LONGEST_LEASE), '+inf', 'LIMIT', 0, LEASES_MOST - #list)
    for _, delivery in ipairs(ahead) do list[#list + 1] = delivery end
  end
  if #list > 0 then adopt_taken(list, sure('HMGET', TOKENS, unpack(list)), most_bytes, answer) end
  set_timer()
end

local pause = expiry and expiry <= now and end_expired()

local answer = { 0, 0, 0 }
if some_end then end_leases(answer) end
write_ends()
if pause then set_expiry(pause) end
answer[1], answer[2], answer[3] = finish()
return answer
