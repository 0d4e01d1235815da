-- lanes: read lanes, those named or a page of all that are known, the last made first.
-- needs: common(call, micros, now, num), limits(DEFAULTS, pauses_all), lane_state(lanes, load_lanes), slots(slots),
--   finish(before_due, before_weight, hint_weight), read(args_from, page_start, pause_reason)
--
-- ARGV[..] after the arguments of read: most (0: the named lanes), score and name of the last one before (empty: from the start), lanes
-- returns now, due, weight, what :held says of all lanes (empty: they are not held), 1 if there is more, then for each: lane,
--   ms when its state was made or last looked at (0: it is not known), in flight, waiting, most in flight now, fails, opened,
--   until ms, us when its rate allows the next attempt (0: now, or it has none), limits (empty: none), its origin and tenant, or its queue
--   (empty: it is no bare URL's), what :held says of it (empty: it is not held), why it is left alone (empty: it is not), ms
--   since when it fails (0: it does not)
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

local all = pauses_all(call('HGET', LIMITS, '*')) and held_as('*', 'p') or ''
local answer = { micros, before_due, hint_weight(before_weight), all, more }
for _, name in ipairs(names) do
  local l = lanes[name]
  local s = l.state
  local token = l.limits.interval > 0 and s.tat > micros and s.tat or 0
  for _, value in ipairs({
    name, call('ZSCORE', KNOWN, name) or '0', l.flying, l.waiting, slots(l), s.fails, s.opened, num(s.till), num(token),
    l.limits ~= DEFAULTS.none and l.limits ~= DEFAULTS.taken and l.limits ~= DEFAULTS.lost and call('HGET', LIMITS, name) or '', call('HGET', NAMES, name) or '',
    held_as(name, l.limits.held), (l.limits.held == '?' and l.waiting > 0 or s.opened == 0 and s.till > now) and pause_reason(l) or '', num(s.failing),
  }) do
    answer[#answer + 1] = value
  end
end
return answer
