-- lane: write the copy of a lane's limits, unless the stored copy is as new, and place the lane by them.
--
-- ARGV[3] lane     * for all of the partition: of it only held counts
-- ARGV[4] version  0: written in any case; with nothing else set it takes the copy away
-- ARGV[5] max      in flight, 0 the default
-- ARGV[6] interval between two attempts in us, 0 no rate
-- ARGV[7] ordered  0 or 1
-- ARGV[8] held     - no, p paused, d disabled, x deleted
-- ARGV[9] clear    1: close the breaker, forget what a receiver asked to wait for, and when the rate allows the next
-- ARGV[10] leads   what :names is to say of it, empty: what it says
-- ARGV[11] who     holds it, a name without spaces
-- returns now, due, weight, breakers (lane, 0, where it was closed), in flight and waiting before
local name, v, held, clear, leads, who = ARGV[3], tonumber(ARGV[4]), ARGV[8], ARGV[9] == '1', ARGV[10], ARGV[11]
local text = num(v) .. ' ' .. num(ARGV[5]) .. ' ' .. num(ARGV[6]) .. ' ' .. num(ARGV[7]) .. ' ' .. held
local nothing = text == '0 0 0 0 -'
local limits = parse_limits(text) or error('no limits: ' .. text)
call('DEL', tag)

-- note_held keeps :held in step with :limits. A lane that is already held for the same reason keeps its time.
local function note_held(why)
  if why == '-' then return sure('HDEL', HELD, name) end
  local was = sure('HGET', HELD, name)
  if not was or sub(was, 1, 1) ~= why then sure('HSET', HELD, name, why .. ' ' .. at_now .. ' ' .. who) end
end

if name == '*' then
  before_weight = weighs(before_weight)
  all_held = held ~= '-'
  if all_held then sure('HSET', LIMITS, '*', '0 0 0 0 p') else sure('HDEL', LIMITS, '*') end
  note_held(all_held and 'p' or '-')
  local t, d, w = finish()
  return { t, d, w, {}, 0, 0 }
end

load({ name })
local l, breakers = lanes[name], {}
local flying, waiting = l.flying, l.waiting
local old = sure('HGET', LIMITS, name)
if v == 0 or not old or v > l.limits.v then
  if nothing and sub(name, 1, 3) ~= 'ep_' then
    sure('HDEL', LIMITS, name)
    l.limits = NO_LIMITS
  else
    sure('HSET', LIMITS, name, text)
    l.limits = limits
  end
end
by_this_clock(l) -- by the new rate
note_held(l.limits.held)
if clear and l.text then -- a lane without a state gets none
  local s = own(l)
  if s.opened > 0 then breakers = { name, 0 } end
  s.fails, s.opened, s.till, s.tat = 0, 0, 0, 0
end
sure('ZADD', KNOWN, 'NX', now, name)
if leads ~= '' then sure('HSET', NAMES, name, leads) end
l.place = true
local t, d, w = finish()
return { t, d, w, breakers, flying, waiting }
