-- upcoming: when something may be attempted next. It changes nothing.
-- needs: common(call, lane_of, micros, now, num, sooner), lane_state(all_paused, lanes, load_lanes),
--   slots(allowed_from, lane_ends), finish(before_due, before_parked, before_weight, hint_weight)
--
-- It looks at the head of :parked, whose lanes have ready deliveries, and at the head of :due. A delivery that becomes due
-- in a paused lane counts for nothing, and one in a lane that waits counts from the end of the wait. It reads so few
-- of each only. Behind them the next one counts as it is: the answer may be too early, but never too late.
--
-- ARGV[3] most  lanes of :parked, and deliveries of :due, that are looked at
-- returns now, due, weight, ms of the earliest time at which something may be attempted or ended (0: nothing waits for a
--   time; not after now: at once), and ms at which the first lane goes on that waits for its rate only (0: none does)
local TAKEN_TIMER = '~taken' -- as in taken.lua: when the first lease ends by itself
local most_looked = tonumber(ARGV[3])
local parked = before_parked > 0 and call('ZRANGE', PARKED, 0, most_looked, 'WITHSCORES') or {}
local due = call('ZRANGE', DUE, 0, most_looked, 'WITHSCORES')
local names = {}
for i = 1, #parked, 2 do
  if parked[i] ~= TAKEN_TIMER and parked[i] ~= '~expiring' then names[#names + 1] = parked[i] end
end
for i = 1, #due, 2 do
  names[#names + 1] = lane_of(due[i])
end
load_lanes(names)

local first, paced = hint_weight(before_weight) >= 0 and now or 0, 0
-- note_time notes a time. A score that is no time was written by hand, and never comes.
local function note_time(at)
  if at < SANE then first = sooner(first, math.max(at, 1)) end
end
local function is_held(l) return all_paused or l.limits.held == 'p' end

for i = 1, #parked, 2 do
  local l, at = lanes[parked[i]], tonumber(parked[i + 1])
  if i > 2 * most_looked or not l then -- TIMER is no lane, and no timer of expiry either
    note_time(at)
  elseif lane_ends(l) or not is_held(l) then
    note_time(at)
    local s = l.state
    local rated = l.limits.interval > 0 and not l.limits.pull -- a lane with consumers waits for them
    if rated and at > now and at < SANE and s.opened == 0 and s.till <= now then paced = sooner(paced, at) end
  end
end
for i = 1, #due, 2 do
  local l, at = lanes[lane_of(due[i])], tonumber(due[i + 1])
  if first > 0 and at >= first then break end
  if i > 2 * most_looked or lane_ends(l) then
    note_time(at)
  elseif not is_held(l) then
    note_time(math.max(at, allowed_from(l)))
  end
end
return { micros, before_due, hint_weight(before_weight), num(first), num(paced) }
