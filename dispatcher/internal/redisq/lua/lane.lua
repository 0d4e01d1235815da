-- lane: write the copy of a lane's limits, unless the stored copy is as new and this is no deletion, and place the lane by
-- them.
-- needs: common(at_now, first_write, match, now, num, sub, sure, tag, write_log), limits(limits_of, parse_limits),
--   lane_state(all_paused, correct_clock, end_network_wait, lanes, load_lanes, set_failing, writable), sums(sums),
--   finish(before_weight, finish, hint_weight)
--
-- ARGV[3] lane     * for all of the partition: of it only held counts
-- ARGV[4] version  0: written in any case; with nothing else set it takes the copy away
-- ARGV[5] max      in flight, 0 the default
-- ARGV[6] interval between two attempts in us, 0 no rate
-- ARGV[7] ordered  0 or 1
-- ARGV[8] held     - no, p paused, d disabled, x deleted; g cut: deliveries accepted until now end, if the lane fails since the
--                   version, in ms, and nothing holds it. Behind it " t" for a lane whose deliveries are taken
-- ARGV[9] clear    1: close the breaker, forget the wait that a receiver asked for, since when it fails, and when the rate
--                   allows the next; 2: an attempt succeeded that was none of a delivery's, and the limits stay as they are
-- ARGV[10] leads   the text of :names, empty: it stays
-- ARGV[11] by      the caller that pauses it, a name without spaces
-- ARGV[12] since   ms since when it is held, 0 now
-- returns now, due, weight, breakers (lane, 0, if it was closed), in flight and waiting before, ms since when it failed
--   where that ended: it was cut, cleared, or an attempt succeeded; else 0
local name, v, held, clear, leads, held_by = ARGV[3], tonumber(ARGV[4]), sub(ARGV[8], 1, 1), ARGV[9] == '1', ARGV[10], ARGV[11]
local since = ARGV[12] == '0' and at_now or num(ARGV[12])
local text = num(v) .. ' ' .. num(ARGV[5]) .. ' ' .. num(ARGV[6]) .. ' ' .. num(ARGV[7]) .. ' ' .. ARGV[8]
local nothing, cut, works = text == '0 0 0 0 -', held == 'g', ARGV[9] == '2'
if cut then text = at_now .. ' 0 0 0 g' end
local limits = parse_limits(text) or error('no limits: ' .. text)
first_write()

-- note_held keeps :held in step with :limits. A lane that is already held for the same reason keeps its time.
local function note_held(why)
  if why == '-' then return sure('HDEL', HELD, name) end
  local was = sure('HGET', HELD, name)
  if not was or sub(was, 1, 1) ~= why then sure('HSET', HELD, name, why .. ' ' .. since .. ' ' .. held_by) end
end

-- log_change has the archive read the lane's endpoint, or whether the lane is held. It writes a line even where the copy
-- is as new already: the endpoint may have changed since the last line, and one line more does no harm.
local function log_change()
  if sure('HEXISTS', ARCHIVE, 'p') == 1 then write_log('k', name .. ' ' .. num(v) .. ' ' .. held) end
end

if name == '*' then
  before_weight = hint_weight(before_weight)
  all_paused = held ~= '-'
  if sure('HEXISTS', ARCHIVE, 'restoring') == 1 then -- the request counts when the restore ends
    local was = sure('HGET', ARCHIVE, 'restoring')
    sure('HSET', ARCHIVE, 'restoring', all_paused and 'held' or 'free')
    if all_paused and was == 'free' then sure('HSET', HELD, '*', 'p ' .. since .. ' ' .. held_by) end
    all_paused = true
    local t, d, w = finish()
    return { t, d, w, {}, 0, 0, 0 }
  end
  if all_paused then sure('HSET', LIMITS, '*', '0 0 0 0 p') else sure('HDEL', LIMITS, '*') end
  note_held(all_paused and 'p' or '-')
  if match(tag, ':0}$') then log_change() end
  if not all_paused then sums.takeable[1] = '*' end
  local t, d, w = finish()
  return { t, d, w, {}, 0, 0, 0 }
end

load_lanes({ name })
local l, breakers = lanes[name], {}
local flying, waiting, failed = l.flying, l.waiting, 0
local old = sure('HGET', LIMITS, name)
if cut then -- another instance may have cut it before, and its attempts may fail anew since
  works = v > 0 and l.state.failing == v and l.limits.held == '-'
  if works then
    sure('HSET', LIMITS, name, text)
    l.limits = limits
  end
elseif not works and (v == 0 or not old or v > l.limits.v or held == 'x' and l.limits.held ~= 'x') then
  -- A deletion is an endpoint's last change. After a failover that lost some of the others its version may be behind them.
  if v > 0 and v < l.limits.v then text = num(l.limits.v) .. sub(text, #num(v) + 1) end
  if nothing and sub(name, 1, 3) ~= 'ep_' then
    sure('HDEL', LIMITS, name)
    l.limits = limits_of(name)
  else
    sure('HSET', LIMITS, name, text)
    l.limits = limits_of(name, text)
  end
end
correct_clock(l) -- by the new rate
note_held(l.limits.cut and 'g' or l.limits.held)
if works and l.text then -- as settle has it
  local s = writable(l)
  failed = s.failing
  if s.opened > 0 then breakers, s.till = { name, 0 }, 0 end
  s.fails, s.opened = 0, 0
  set_failing(l, 0, 0, 0)
  if s.egress > 0 then end_network_wait(l).till = 0 end
end
if clear and l.text then -- a lane without a state gets none
  local s = writable(l)
  if s.opened > 0 then breakers = { name, 0 } end
  s.fails, s.opened, s.till, s.tat, failed = 0, 0, 0, 0, s.failing
  if s.failing > 0 then set_failing(l, 0, 0, 0) end
end
if not works then sure('ZADD', KNOWN, 'NX', now, name) end
if leads ~= '' then sure('HSET', NAMES, name, leads) end
if not works and not cut then log_change() end
l.place = true
local t, d, w = finish()
return { t, d, w, breakers, flying, waiting, num(failed) }
