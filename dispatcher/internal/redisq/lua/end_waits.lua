-- end_waits: let lanes that wait for the instances' own network be attempted at once. Lanes that wait for anything else
-- stay as they are.
-- needs: common(first_write, now), lane_state(load_lanes, loaded, writable), finish(finish)
--
-- ARGV[3..] lanes, at most some hundred
-- returns now, due, weight
local names = {}
for i = 3, #ARGV do names[#names + 1] = ARGV[i] end
first_write()
load_lanes(names)
for _, l in ipairs(loaded) do
  if l.state.egress > 0 and l.state.opened == 0 and l.state.till > now then writable(l).till, l.place = now, true end
end
local t, d, w = finish()
return { t, d, w }
