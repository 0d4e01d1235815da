-- doctor_add: correct counts by the difference between their values and a recount. Scripts change counts by
-- differences. So the difference is still the same, whatever has happened since.
-- needs: common(call, first_write), lane_state(lanes, load_lanes, writable), sums(add_to, count, sums), finish(finish),
--   doctor(args_from)
--
-- ARGV[..] after the arguments of doctor: number of lanes, for each: lane, in flight, waiting, sets; then for each count: c or b (of
--   :counts, of :buried), field, difference
-- returns now, due, weight
local n = tonumber(ARGV[args_from])
local names = {}
for i = 1, n do names[i] = ARGV[args_from + 4 * i - 3] end
first_write(true)
load_lanes(names)
for i, name in ipairs(names) do
  local l, at = lanes[name], args_from + 4 * i - 3
  l.flying = l.flying + tonumber(ARGV[at + 1])
  l.waiting = l.waiting + tonumber(ARGV[at + 2])
  if ARGV[at + 3] ~= '0' then
    local s = writable(l)
    s.keys = math.max(0, s.keys + tonumber(ARGV[at + 3]))
  end
  l.ready = call('LLEN', READY .. name)
  l.place = true
end
for i = args_from + 1 + 4 * n, #ARGV, 3 do
  local field, difference = ARGV[i + 1], tonumber(ARGV[i + 2])
  if ARGV[i] == 'c' then
    count(field, difference)
  else
    add_to(sums.buried, field, difference)
  end
end
return { finish() }
