-- sweep: end deliveries that wait in a lane that takes no more: its endpoint is disabled or deleted, or it is cut, which
-- ends what was accepted by then. Those in line behind them follow.
--
-- ARGV[3]   lane
-- ARGV[4]   t: those that are named, which wait for a time; r: the head of the ready list; u: none, and a cut is taken away
--           unless what is in flight may be older
-- ARGV[5..] deliveries of it (t)
-- returns now, due, weight, number that ended
local MOST = 64 -- deliveries of a ready list that one call ends
local LONGEST = 120000 -- ms; no attempt takes longer, with its quick repeats
local name, what, ids = ARGV[3], ARGV[4], {}
for i = 5, #ARGV do
  local lane, id = parts(ARGV[i])
  if lane == name then ids[#ids + 1] = id end
end
call('DEL', tag)
load({ name })
local l = lanes[name]
for _, id in ipairs(ids) do
  local delivery = name .. ':' .. id
  if ends_with(l, id) and sure('ZREM', DUE, delivery) == 1 then expel(l, delivery, id, sure('HGET', PROGRESS, delivery)) end
end
if what == 'r' and l.limits.cut then
  end_ready(l, MOST)
  l.place = true
end
if what == 'u' and l.limits.cut and (l.flying <= 0 or now - l.limits.cut >= LONGEST) then
  sure('HDEL', LIMITS, name)
  sure('HDEL', HELD, name)
end
local n = (#ended.cancelled + #ended.dead) / 2
flush()
local t, d, w = finish()
return { t, d, w, n }
