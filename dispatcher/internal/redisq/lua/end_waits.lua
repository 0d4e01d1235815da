-- end_waits: let lanes that wait be attempted at once: those that wait for the instances' own network, or also those with an
-- open breaker or a Retry-After, because a person asks for an attempt. An open breaker stays open: it allows its one attempt
-- now, whose success closes it. Other lanes stay as they are.
-- needs: common(first_write, now), lane_state(load_lanes, loaded, writable), finish(finish)
--
-- ARGV[3] all  0: only waits for our own network; 1: all
-- ARGV[4..] lanes, at most some hundred
-- returns now, due, weight
local all, names = ARGV[3] == '1', {}
for i = 4, #ARGV do names[#names + 1] = ARGV[i] end
first_write()
load_lanes(names)
for _, l in ipairs(loaded) do
  local s = l.state
  if s.till > now and (all or s.egress > 0 and s.opened == 0) then writable(l).till, l.place = now, true end
end
local t, d, w = finish()
return { t, d, w }
