-- ready_lanes: find the lanes with ready deliveries, a page of all lanes at a time.
-- needs: common(call, match, micros), lane_state(lanes, load_lanes), finish(before_due, before_weight, hint_weight),
--   server(server), read(args_from, safely)
--
-- ARGV[..] after the arguments of read: cursor of the scan ("0" at first), about how many to read, 1: only lanes in which
--   others may wait behind ready deliveries, or whose deliveries are cancelled
-- returns now, due, weight, next cursor ("0" at the end), the process that it is valid for, how many were looked at, then the lanes
local few = ARGV[args_from + 2] == '1'
local ready = call('HGET', COUNTS, 'ready')
local none = not ready or ready == '0' -- so no lane needs to be looked at
local scan = none and { '0', NONE } or call('HSCAN', IN, ARGV[args_from], 'COUNT', ARGV[args_from + 1])
local names = {}
for i = 1, #scan[2], 2 do
  local waiting = match(scan[2][i + 1], ' (%d+)$')
  if waiting and waiting ~= '0' then names[#names + 1] = scan[2][i] end
end
if few then load_lanes(names) end
local answer = { micros, before_due, hint_weight(before_weight), scan[1], server(), #scan[2] / 2 }
for _, name in ipairs(names) do
  local l = few and lanes[name]
  if not l or l.state.keys > 0 or l.limits.held == 'x' then
    local n = safely('LLEN', READY .. name)
    if n and n > 0 then answer[#answer + 1] = name end
  end
end
return answer
