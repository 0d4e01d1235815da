-- forget: remove a copy of limits whose endpoint is not there and was never deleted. Its creation failed between the
-- copy and the endpoint itself. Nothing can wait in such a lane. If something does, or the copy is another one, it
-- stays. A lane in which something waits had an endpoint that was lost since. If it is paused, only its limits go. It
-- can't be claimed from without them either, and says then why.
-- needs: common(call, first_write, micros, now), lane_state(lanes, load_lanes), finish(before_due, before_weight,
--   hint_weight)
--
-- ARGV[3] lane
-- ARGV[4] version  that the copy has
-- ARGV[5] age      ms that its state must be old
-- returns now, due, weight, 1 if it is gone
local name, v, age = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
first_write()
load_lanes({ name })
local l, noted = lanes[name], tonumber(call('ZSCORE', KNOWN, name) or 0)
if l.limits.v == v and l.limits.held == 'p' and l.waiting > 0 then
  call('HDEL', LIMITS, name)
  call('HDEL', HELD, name)
  return { micros, before_due, hint_weight(before_weight), 0 }
end
if l.limits.v ~= v or l.flying > 0 or l.waiting > 0 or call('EXISTS', READY .. name, SHELF .. name) > 0 or noted > now - age then
  return { micros, before_due, hint_weight(before_weight), 0 }
end
for _, hash in ipairs({ LIMITS, HELD, IN, LANE, NAMES, FAILURES }) do call('HDEL', hash, name) end
for _, zset in ipairs({ KNOWN, LANES, PARKED }) do call('ZREM', zset, name) end
return { micros, before_due, hint_weight(before_weight), 1 }
