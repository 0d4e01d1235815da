-- lanes: read lanes, those named or a page of all that are known, the last made first.
-- needs: common(call, find, match, micros, now, num, sub), limits(pauses_all), lane_state(lanes, load_lanes),
--   slots(slots), finish(before_due, before_weight, hint_weight), read(args_from, page_start, pause_reason, safely)
--
-- ARGV[..] after the arguments of read: most (0: the named lanes), score and name of the last one before (empty: from the start), lanes
-- returns now, due, weight, what :held says of all lanes (empty: they are not held), 1 if there is more, then for each: lane,
--   ms when its state was made or last looked at (0: it is not known), in flight, waiting, most in flight now, fails, opened,
--   until ms, us when its rate allows the next attempt (0: now, or it has none), limits (empty: none), its origin and tenant, or its queue
--   (empty: it is no bare URL's), what :held says of it (empty: it is not held), why it is left alone (empty: it is not), ms
--   since when it fails (0: it does not), the message whose attempt failed last, and that attempt from its history (both empty:
--   none failed, or it is not kept any more), how many of the waiting are ready
local wanted, after, last = tonumber(ARGV[args_from]), ARGV[args_from + 1], ARGV[args_from + 2]
local names, more = {}, 0
if wanted > 0 then
  local at = page_start(KNOWN, after, last)
  names = call('ZREVRANGE', KNOWN, at, at + wanted - 1)
  if at + #names < call('ZCARD', KNOWN) then more = 1 end
else
  for i = args_from + 3, #ARGV do names[#names + 1] = ARGV[i] end
end
load_lanes(names)

-- held_as returns the entry in :held of a lane that its limits say is held.
local function held_as(name, letter)
  if letter == '-' or letter == '?' then return '' end
  return call('HGET', HELD, name) or letter .. ' 0 system'
end

-- last_failure returns the newest failed attempt of a delivery with some of the response, nil if its history has none. Behind the
-- failed one there may be a success, and an attempt that a person asked for since.
local function last_failure(lane, id)
  local RECENT, SHOWN_BYTES = 3, 200 -- attempts that are read, and bytes of the response
  for _, entry in ipairs(safely('LRANGE', HISTORY .. lane .. ':' .. id, 0, RECENT - 1) or NONE) do
    local head, length = match(entry, '^(%d+ (%d+) )')
    local size = head and #head + tonumber(length) or 0
    if head and not find(sub(entry, 1, size), '"v":1[,}]') then return sub(entry, 1, size + SHOWN_BYTES) end
  end
end

local failures = #names > 0 and call('HMGET', FAILURES, unpack(names)) or NONE
local all = pauses_all(call('HGET', LIMITS, '*')) and held_as('*', 'p') or ''
local answer = { micros, before_due, hint_weight(before_weight), all, more }
for i, name in ipairs(names) do
  local l, message = lanes[name], failures[i]
  local s, failure = l.state, message and last_failure(name, message)
  local token = l.limits.interval > 0 and s.tat > micros and s.tat or 0
  for _, value in ipairs({
    name, call('ZSCORE', KNOWN, name) or '0', l.flying, l.waiting, slots(l), s.fails, s.opened, num(s.till), num(token),
    not l.limits.default and call('HGET', LIMITS, name) or '', call('HGET', NAMES, name) or '',
    held_as(name, l.limits.held), (l.limits.held == '?' and l.waiting > 0 or s.opened == 0 and s.till > now) and pause_reason(l) or '', num(s.failing),
    failure and message or '', failure or '', l.waiting > 0 and safely('LLEN', READY .. name) or 0,
  }) do
    answer[#answer + 1] = value
  end
end
return answer
