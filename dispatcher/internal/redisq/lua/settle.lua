-- settle: record the outcomes of attempts. Without the lease only a success counts, and only if the delivery is not
-- finished.
--
-- ARGV[3]   number of entries for :attempts, then of each: number of lines, lines, evidence. Together they have a line for
--           each outcome
-- ARGV[..]  for each: delivery, verdict (d delivered, r retry, x dead, b back), took ms, status (0 no answer),
--           ms (r: wait; b: since when it was ready), number of the attempt (0: none was made), reason (x; else -),
--           meta, excerpt (both empty: nothing for the history), blame (ms for which the lane is left alone; before it !
--           where the failure counts for its breaker, and the lane fails, ? where it only fails, then , and ms after which it
--           is given up; e behind it where our own network was at fault; or ~ and a letter where no receiver is to blame, as
--           :lane has it; with ~e the lane waits for our own network), ms when it was leased (where
--           no attempt was made: only that lease is settled; 0: whenever that was); of a first attempt that was answered
--           with 200 only delivery, took ms
-- returns now, due, weight, breakers (lane, ms until when it is left alone, 0 closed, for each that opened or closed), a
--   digit for each: 1 done as asked, 2 late and nothing changed, 3 late but counted, 4 had ended otherwise, or its lane ends
--   it, 5 nothing changed, since it died of this very outcome when that was given before; then for each lane that fails, or
--   did: lane, ms since when, 0 it fails, 1 for so long that it is given up, 2 an attempt succeeded
--
-- No delivery comes twice in one call. A first 200 has two arguments only, since arguments cost more than anything else
-- here.
local LONGEST_WAIT = 600000 -- ms; a breaker's wait doubles up to it

local deliveries, names, first_of = {}, {}, {}
local plain = {} -- ms that the attempt took, if it was a first one answered with 200; else false
local many = 0
do -- this block ends its locals: there may be no more than some two hundred at a time
  local PLAIN, WIDTH = 2, 11 -- values of an outcome; at[k] is where one begins: it is read in place
  local i = 4 + 3 * tonumber(ARGV[3])
  while ARGV[i] do
    local delivery, took = ARGV[i], tonumber(ARGV[i + 1])
    many = many + 1
    deliveries[many], first_of[many], plain[many] = delivery, i, took or false
    names[many] = sub(delivery, 1, (find(delivery, ':', 1, true) or #delivery + 1) - 1)
    i = i + (took and PLAIN or WIDTH)
  end
end
if many == 0 then
  local t, d, w = finish()
  return { t, d, w, {}, '' }
end
load_lanes(names)
local marks, texts = read_fields(MARKS, deliveries), read_fields(PROGRESS, deliveries)

-- An outcome may be repeated, since its answer was lost, after the same instance has claimed the delivery again. Then
-- its attempt was counted already, and the lease is not its own. After a late success of another attempt the numbers
-- say nothing, but that delivery has ended anyhow. Without an attempt the time of the lease decides. Otherwise a
-- delivery that is handed back twice would be attempted by two instances at once.
local leased_here, leased, nleased = {}, {}, 0
for k, score in ipairs(call('ZMSCORE', LEASES .. by, unpack(deliveries))) do
  local text, older = texts[k], false
  if text and not marked_delivered(marks[k]) then
    local number = plain[k] and 1 or tonumber(ARGV[first_of[k] + 5])
    older = number > 0 and number <= (parse_progress(text))
  end
  if score and not plain[k] and ARGV[first_of[k] + 5] == '0' then
    local leased_at = tonumber(ARGV[first_of[k] + 10])
    older = leased_at > 0 and leased_at ~= floor(tonumber(score))
  end
  if score and not older then
    nleased = nleased + 1
    leased_here[k], leased[nleased] = true, deliveries[k]
  end
end

-- A late success counts if its delivery is still kept, and no other one ends it already.
local kept = {}
if nleased < many then
  local wholes = {}
  for k, delivery in ipairs(deliveries) do
    if not leased_here[k] and not marked_delivered(marks[k]) and (plain[k] or ARGV[first_of[k] + 1] == 'd') then
      local _, id = split(delivery)
      kept[k] = kept_record(names[k], id, wholes)
    end
  end
end

call('DEL', tag)
in_chunks('ZREM', LEASES .. by, leased)

local dues, fronts, marked, gone = {}, {}, {}, {}
local opened = {} -- lanes; what else becomes of a lane stands at it: opened_at, closed; told, 0 or 1, and since; recovered
local ndone = 0 -- of those that are written already

local function class_of(took)
  return took <= 50 and 0 or took <= 100 and 1 or took <= 250 and 2 or took <= 1000 and 4 or WORST
end

local remember
do
  local KEPT, WITH_EXCERPT = 32, 3 -- attempts in a history; the newest of them that keep the excerpt of the answer
  -- keep_success keeps the first success in a history that is cut. If the oldest attempt was a success, it replaces the
  -- next oldest one. So the success is always shown, however often the delivery is sent again.
  local function keep_success(key)
    local oldest = call('LINDEX', key, -1)
    local head, length = match(oldest, '^(%d+ (%d+) )')
    if head and find(sub(oldest, 1, #head + length), '"v":1[,}]') then call('LSET', key, -2, oldest) end
  end

  function remember(i, due)
    local meta, excerpt = ARGV[i + 7], ARGV[i + 8]
    if meta == '' then return end
    local key = HISTORY .. ARGV[i]
    local n = sure('LPUSH', key, num(due) .. ' ' .. #meta .. ' ' .. meta .. excerpt)
    if n > WITH_EXCERPT then
      local old = call('LINDEX', key, WITH_EXCERPT)
      local head, length = match(old, '^(%d+ (%d+) )')
      if head and #old > #head + length then call('LSET', key, WITH_EXCERPT, sub(old, 1, #head + length)) end
    end
    if n > KEPT then
      keep_success(key)
      call('LTRIM', key, 0, KEPT - 1)
    end
  end
end

-- widen widens a lane's window after a success. A part above the limit, which may have been lowered, does not count.
local function widen(l)
  local top = l.limits.top
  l.window = l.window < top and l.window + 1 or top
end

-- learn changes a lane by the answer to an attempt. An attempt that was not made says nothing, and its token is given
-- back.
local function learn(i, l)
  if ARGV[i + 5] == '0' or ARGV[i + 1] == 'b' then
    return_token(l)
    return
  end
  if l.limits.pull then return end -- those who take pace themselves
  if ARGV[i + 3] == '0' then
    l.window, l.slow = math.max(1, floor(math.min(l.window, l.limits.top) / 2)), WORST
    return
  end
  l.slow = class_of(tonumber(ARGV[i + 2]))
  if ARGV[i + 1] == 'd' then widen(l) end
end

local record_success, record_failure
do
  -- end_network_wait ends a lane's wait for our own network, since an attempt had another outcome.
  local function end_network_wait(l)
    local s = writable(l)
    s.more, s.egress, s.wait = (string.gsub(s.more, ' e[%d-]+$', '')), 0, 0
    if s.opened == 0 then s.till = 0 end
  end

  -- record_success closes a lane's breaker. A later Retry-After stays if the breaker was not open.
  function record_success(l)
    if l.state.egress > 0 then end_network_wait(l) end
    local s = l.state
    if s.fails == 0 and s.opened == 0 and s.failing == 0 then return end
    s = writable(l)
    if s.failing > 0 then
      l.recovered, l.told = l.recovered or s.failing, nil
      set_failing(l, 0, 0, 0)
    end
    if s.opened > 0 then
      s.till = 0
      l.closed = true
    end
    s.fails, s.opened = 0, 0
  end

  -- note_failing notes at a lane that fails when it was attempted last. Where it failed once more, it answers since when it fails.
  -- That begins anew if nothing was attempted for as long as it takes to give the lane up, while the lane allowed it.
  local function note_failing(l, failed, after)
    local s = l.state
    local since, told, last = math.min(s.failing, now), match(s.more, '^ %d+ (%d+) ?(%d*)')
    if failed and (since == 0 or after > 0 and now - math.max(tonumber(last) or 0, s.till) >= after) then since, told = now, '0' end
    set_failing(l, since, told, at_now)
    return since
  end

  -- record_failure counts a failure for the lane's breaker, and has the lane fail. It leaves the lane alone as long as its receiver
  -- asked.
  function record_failure(i, l)
    local blame = ARGV[i + 9]
    local sign = sub(blame, 1, 1)
    if l.state.egress > 0 and ARGV[i + 5] ~= '0' and ARGV[i + 1] ~= 'b' and sub(blame, -1) ~= 'e' then end_network_wait(l) end
    if sign == '!' or sign == '?' then
      local pause, after = match(blame, '^.(%d+),?(%d*)e?$')
      blame, after = pause, tonumber(after) or 0
      l.since = note_failing(l, true, after)
      l.told = after > 0 and now - l.since >= after and l.limits.held == '-' and 1 or 0
    elseif l.state.failing > 0 and ARGV[i + 5] ~= '0' and ARGV[i + 1] ~= 'b' then
      note_failing(l, false)
    end
    if blame == '0' and sign ~= '!' then return end
    local s = writable(l)
    if sign == '!' then
      s.fails = s.fails + 1
      if breaker_threshold > 0 and s.fails >= breaker_threshold and (s.opened == 0 or s.till <= now) then
        s.opened = s.opened + 1
        s.till = math.max(s.till, now + math.min(first_wait * 2 ^ math.min(s.opened - 1, 30), LONGEST_WAIT))
        if not l.opened_at then opened[#opened + 1] = l end
        l.opened_at = s.till
      end
    end
    local letter, ms = match(blame, '^~(%l)(%d+)$')
    local pause = tonumber(ms or blame)
    if pause > 0 and now + pause > s.till then
      local why = letter and ' ' .. letter or ''
      if letter == 'e' then
        if s.egress == 0 then s.egress = now end
        s.wait = pause
        why = why .. num(s.egress) .. '-' .. num(pause)
      else
        s.egress, s.wait = 0, 0
      end
      s.till = now + pause
      s.more = string.gsub(s.more, ' %l[%d-]*$', '') .. why
    end
  end
end

-- waits_until is the due time after a failed attempt, and whether its message will have expired by then. A due time
-- that a person's attempt interrupted is kept. If it has passed, the rung's wait begins again, and a longer wait that
-- the receiver asked for wins. For the other attempts the caller has checked the expiry.
local function waits_until(i, text)
  local _, _, _, _, asked = parse_progress(text)
  local due = ceil_now + tonumber(ARGV[i + 4])
  if asked <= 1 then return due, false end
  due = math.max(asked > now and asked or due, ceil_now + tonumber(match(ARGV[i + 9], '%d+')))
  local _, id = split(ARGV[i])
  local record = sure('HGET', MESSAGES, id)
  local expiry = record and #record > DIGEST and expires_at(record) or 0
  return due, expiry > 0 and due >= expiry
end

-- write_progress writes the progress of a delivery, and answers its status if it waits then. A first attempt that was answered
-- with 200 needs no entry. A failed attempt that a person asked for, while the delivery waited, does not count on the
-- ladder.
local function write_progress(i, text, reason)
  if ARGV[i + 5] == '0' and reason == '-' then return waiting_status(text) end
  if not text and ARGV[i + 1] == 'd' and ARGV[i + 3] == '200' and ARGV[i + 5] == '1' then return end
  local attempts, base, _, _, asked, _, more, beside = parse_progress(text)
  attempts = math.max(attempts, tonumber(ARGV[i + 5]))
  if asked > 1 and ARGV[i + 1] == 'r' then
    beside = beside + 1
    more = with_beside(more, beside)
  end
  append_pair(progress_entries, ARGV[i], progress_text(attempts, base, 0, tonumber(ARGV[i + 3]), 0, reason, more))
  return attempts - beside > base and 'retrying' or 'scheduled'
end

-- ended_by ends a delivery as its mark says, whatever came of the attempt. A success ends what was cancelled, and needs no
-- note: its line tells it. A delivery that a late success ends is not ended again by the line of another one.
local function ended_by(mark, i, text)
  local delivery, verdict = ARGV[i], ARGV[i + 1]
  local first = verdict == 'd' and not marked_delivered(mark)
  if first then
    append_pair(ended.done, at_now, delivery)
    removed_marks[#removed_marks + 1] = delivery
  else
    local status = end_marked(delivery, mark, math.max((parse_progress(text)), tonumber(ARGV[i + 5])))
    if status == 'cancelled' then count(status, 1) end -- what was delivered is counted at the end
  end
  if verdict ~= 'b' then
    write_progress(i, text, '-')
    remember(i, 0)
  end
  return first and '1' or '4', true
end

-- ended_with_lane ends a delivery that would wait again in the lane of a disabled or deleted endpoint.
local function ended_with_lane(i, l, text)
  if ARGV[i + 1] == 'b' or ARGV[i + 5] == '0' then
    end_with_lane(l, ARGV[i], text)
  else
    local attempts = parse_progress(text)
    end_with_lane(l, ARGV[i], text, math.max(attempts, tonumber(ARGV[i + 5])), tonumber(ARGV[i + 3]))
    remember(i, 0)
  end
  return '4'
end

-- settle ends a delivery, or hands it on. It answers the code, whether the delivery ended, and of one that waits for its
-- next rung when that is due.
local function settle(i, l, text, mark)
  local delivery, verdict = ARGV[i], ARGV[i + 1]
  l.flying = l.flying - 1
  learn(i, l)
  if verdict == 'd' then record_success(l) else record_failure(i, l) end
  if mark then return ended_by(mark, i, text) end
  if verdict == 'd' then
    append_pair(ended.done, at_now, delivery)
    write_progress(i, text, '-')
    remember(i, 0)
    return '1', true
  end
  if verdict ~= 'x' and ends_with_lane(l, sub(delivery, #l.name + 2)) then return ended_with_lane(i, l, text), true end
  if verdict == 'b' then
    fronts[#fronts + 1] = i
    l.waiting = l.waiting + 1
    return '1', false
  end
  local due, over
  if verdict == 'r' then due, over = waits_until(i, text) end
  if due and not over then
    count(write_progress(i, text, '-'), 1)
    append_pair(dues, num(due), delivery)
    l.waiting = l.waiting + 1
    remember(i, due)
    return '1', false, due
  end
  local reason = over and 'expired' or ARGV[i + 6]
  write_progress(i, text, reason)
  end_dead(l, delivery, reason, math.max((parse_progress(text)), tonumber(ARGV[i + 5])))
  remember(i, 0)
  if not over then return '1', true end
  log_line(delivery, 'dead', 0, 0, tonumber(ARGV[i + 5]), 'expired')
  return '4', true
end

-- died_of_it reports whether a delivery died of this outcome already. An instance that was declared dead settled
-- nothing since. A later death belongs to the instance that took over.
local function died_of_it(i, text)
  local attempts, _, _, _, _, reason = parse_progress(text)
  local number = tonumber(ARGV[i + 5])
  if reason ~= ARGV[i + 6] or number > 0 and number ~= attempts then return false end
  local died, fenced = sure('ZSCORE', DEAD, ARGV[i]), sure('ZSCORE', FENCED, by)
  return died and (not fenced or tonumber(died) < tonumber(fenced))
end

local function settle_late(i, l, text, record)
  local delivery = ARGV[i]
  if ARGV[i + 1] == 'x' and died_of_it(i, text) then return '5', false end
  local _, id = split(delivery)
  if not record then return '2', false end
  ndone = ndone + #ended.done / 2
  write_ends()
  if sure('ZSCORE', DONE, delivery) or sure('ZSCORE', CANCELLED, delivery) or sure('ZSCORE', DEAD, delivery) then
    return '2', false
  end
  write_progress(i, text, '-')
  remember(i, 0)
  local due = call('ZSCORE', DUE, delivery)
  local behind = not due and set_ahead_of(l, id, record)
  if not due and not behind then
    -- Ready or leased elsewhere: the next script that reads it ends it.
    marked[#marked + 1] = delivery
    marked[#marked + 1] = 'd' .. num(end_time()) -- not before the line of this success
    return '3', false
  end
  if due then gone[#gone + 1] = delivery end
  l.waiting = l.waiting - 1
  count(due and waiting_status(text) or 'scheduled', -1)
  append_pair(ended.done, at_now, delivery)
  return '3', true
end

-- whole gives a plain outcome all values, for those that are not settled the short way.
local function whole(k)
  local i = first_of[k]
  if not plain[k] then return i end
  local from_here = #ARGV + 1
  for offset, value in ipairs({ ARGV[i], 'd', ARGV[i + 1], '200', '0', '1', '-', '', '', '0', '0' }) do
    ARGV[from_here + offset - 1] = value
  end
  return from_here
end

-- write_entries writes the lines of the outcomes, each with its code, and when those are due that wait for their next rung.
local function write_entries(codes)
  -- jobs_of names the jobs to which the deliveries of some lines belong, for each run of one job. An attempt with a number
  -- that was counted before was made before the job sent the delivery.
  local function jobs_of(first, last)
    local runs, before = {}, nil
    for line = first, last do
      local text, job = texts[line], nil
      if text and find(text, '+', 1, true) then
        local attempts, owner = match(text, '^(%d+) %d+ %d+ %d+ %d+ %S+ %d+ (%d+)%+')
        local number = plain[line] and 1 or tonumber(ARGV[first_of[line] + 5])
        job = owner and number > tonumber(attempts) and owner or nil
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

  local first = 1
  for k = 4, 1 + 3 * tonumber(ARGV[3]), 3 do
    local last = first + tonumber(ARGV[k]) - 1
    local due = {}
    for line = first, sums.nexts and last or 0 do
      if sums.nexts[line] then due[#due + 1] = num(sums.nexts[line]) end
    end
    local fields, jobs = { 'l', ARGV[k + 1], 'c', sub(codes, first, last), 'e', ARGV[k + 2] }, jobs_of(first, last)
    if #due > 0 then append_pair(fields, 'n', table.concat(due, ' ')) end
    if jobs ~= '' then append_pair(fields, 'j', jobs) end
    write_log(unpack(fields))
    first = last + 1
  end
end

local answer, codes, news = { 0, 0, 0, {} }, {}, false
for k = 1, many do
  local l = lanes[names[k]]
  local code, over = '1', true
  if not leased_here[k] then
    code, over = settle_late(whole(k), l, texts[k], kept[k])
  elseif plain[k] and not texts[k] and not marks[k] then
    l.flying = l.flying - 1
    if not l.limits.pull then
      l.slow = class_of(plain[k])
      widen(l)
    end
    record_success(l)
    append_pair(ended.done, at_now, deliveries[k])
  else
    local due
    code, over, due = settle(whole(k), l, texts[k], marks[k])
    if due then
      sums.nexts = sums.nexts or {} -- by the line; no local of its own, since there may be no more
      sums.nexts[k] = due
    end
  end
  if l.state.keys > 0 and over then leave_line(l, sub(deliveries[k], #names[k] + 2)) end
  codes[k] = code
  news = news or code ~= '2' and code ~= '5'
end
codes = table.concat(codes)
if news then write_entries(codes) end -- before the ends are written, since their entry tells whether the clock stepped back
count('in_flight', -#leased)
count('delivered', ndone + #ended.done / 2)
count('ready', #fronts)
sums.readied = #fronts > 0

in_chunks('ZREM', DUE, gone)
in_chunks('ZADD', DUE, dues)
in_chunks('HSET', MARKS, marked)
write_ends()
-- The first one handed back goes to the head last, so that the order of the call is kept.
for f = #fronts, 1, -1 do
  local i = fronts[f]
  local lane, id = split(ARGV[i])
  if sure('LPUSH', READY .. lane, num(ARGV[i + 4]) .. ':' .. id) == 1 then lanes[lane].place = true end
end
for _, l in ipairs(opened) do
  local till = l.state.till -- later than the breaker's time if the receiver asked for more
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
  if l.told then
    append_pair(answer[6], l.name, num(l.since))
    append_pair(answer[6], l.told)
  end
end
return answer
