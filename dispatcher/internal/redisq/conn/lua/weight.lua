-- weight: how much of the permits of all instances a lane takes. It is put behind common. It takes no arguments of its own:
-- ARGV[3..] is the script's. A lane is a table with flying, its deliveries in flight, and slow, its latency class.
-- needs: common(all_permits, floor, permits)

-- burden returns the deliveries of a lane in flight, plus its latency class for every CLASS_PERMITS permits. So lanes that
-- time out leave 64 of 1,024 permits to better lanes. That covers the lanes that can begin to time out at once, without the
-- last permit. With few permits the classes count less, because fast lanes would keep all permits for ever otherwise.
-- A lane without a response until now counts as hung while it has an attempt under way. So new lanes that hang leave the
-- permits between both classes to the first attempts of other new lanes.
local function burden(l)
  local class = l.slow == UNKNOWN and l.flying > 0 and WORST or l.slow
  return math.max(0, l.flying) + floor(class * all_permits / CLASS_PERMITS)
end

-- weight returns the burden of a lane as a part of the permits of all instances. All callers compute the same weight because
-- it orders the lanes from which all of them claim.
local function weight(l) return math.min(MOST_WEIGHT, floor(WHOLE * burden(l) / all_permits)) end

-- light_enough reports whether a lane may get a permit of an instance with free permits. The lane must weigh less than the
-- free part of the permits of the instance. So the classes reserve the last permits for better lanes. An instance with no
-- delivery in flight may claim from any lane. The last free permit of very many weighs one.
local function light_enough(l, free)
  if free <= 0 then return false end
  return free == permits or weight(l) < math.max(1, floor(WHOLE * free / permits))
end
