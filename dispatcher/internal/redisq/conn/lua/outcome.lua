-- outcome: the values of an outcome in the arguments of settle, and the changes that it makes to its lane: window, latency class,
-- breaker. It is put behind order. i: the place of the outcome in ARGV, as settle has it.
-- needs: common(at_now, breaker_threshold, first_wait, floor, match, now, sub), lane_state(end_network_wait,
--   last_failing_attempt, set_failing, start_wait, writable), slots(return_token)
local VERDICT, CLASS, STATUS, WAIT, NUMBER, REASON, META, EXCERPT, BLAME, LEASED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local LONGEST_WAIT = 600000 -- ms; the wait of a breaker doubles up to it

-- Lanes whose breaker opened. Other changes are in fields of the lane: opened_at, closed; reported, 0 or 1, and since; recovered;
-- failed, the delivery whose attempt failed last.
local opened = {}

-- widen adds one to the window of a lane after a success. A part above the limit does not count, because the limit may
-- have been lowered.
local function widen(l) l.window = math.min(l.window + 1, l.limits.top) end

-- learn changes the window and the class of a lane by the response to an attempt. Without an attempt the lane gets its token
-- back. Consumers set their own pace, so their lanes learn nothing.
local function learn(i, l)
  if ARGV[i + VERDICT] == 'z' then return end -- a handler ran, so the token is used
  if ARGV[i + NUMBER] == '0' or ARGV[i + VERDICT] == 'b' then
    return_token(l)
    return
  end
  if l.limits.pull then return end
  if ARGV[i + STATUS] == '0' then
    l.window, l.slow = math.max(1, floor(math.min(l.window, l.limits.top) / 2)), WORST
    return
  end
  l.slow = tonumber(ARGV[i + CLASS])
  if ARGV[i + VERDICT] == 'd' then widen(l) end
end

-- other_outcome ends the wait of a lane for our own network, because an attempt had another outcome.
local function other_outcome(l) -- rare
  local s = end_network_wait(l)
  if s.opened == 0 then s.till = 0 end
end

-- record_success closes the breaker of a lane. A later Retry-After stays if the breaker was not open.
local function record_success(l)
  if l.state.egress > 0 then other_outcome(l) end
  local s = l.state
  if s.fails == 0 and s.opened == 0 and s.failing == 0 then return end
  s = writable(l)
  if s.failing > 0 then
    l.recovered, l.reported = l.recovered or s.failing, nil
    set_failing(l, 0, 0, 0)
  end
  if s.opened > 0 then
    s.till = 0
    l.closed = true
  end
  s.fails, s.opened = 0, 0
end

-- note_failing sets the time of the last attempt of a failing lane. After one more failure it returns since when the lane
-- fails. That time begins again if the lane allowed attempts, and had none for the time after which it is given up.
local function note_failing(l, failed, after)
  local s = l.state
  local since, reported, last = math.min(s.failing, now), last_failing_attempt(l)
  if failed and (since == 0 or after > 0 and now - math.max(tonumber(last) or 0, s.till) >= after) then since, reported = now, '0' end
  set_failing(l, since, reported, at_now)
  return since
end

-- record_failure counts a failure for the breaker of the lane, and the lane fails. The lane waits as long as its receiver asked.
local function record_failure(i, l)
  if ARGV[i + META] ~= '' then l.failed = ARGV[i] end
  local blame = ARGV[i + BLAME]
  local sign = sub(blame, 1, 1)
  if l.state.egress > 0 and ARGV[i + NUMBER] ~= '0' and ARGV[i + VERDICT] ~= 'b' and sub(blame, -1) ~= 'e' then other_outcome(l) end
  if sign == '!' or sign == '?' then
    local pause, after = match(blame, '^.(%d+),?(%d*)e?$')
    blame, after = pause, tonumber(after) or 0
    l.since = note_failing(l, true, after)
    l.reported = after > 0 and now - l.since >= after and l.limits.held == '-' and 1 or 0
  elseif l.state.failing > 0 and ARGV[i + NUMBER] ~= '0' and ARGV[i + VERDICT] ~= 'b' then
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
  if pause > 0 and now + pause > s.till then start_wait(l, letter, pause) end
end
