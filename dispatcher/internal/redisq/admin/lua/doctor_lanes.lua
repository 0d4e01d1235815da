-- doctor_lanes: find lanes that have a turn without work, or work without a turn, and place them. It also checks the
-- timers of movers for the first lease that ends, and the first delivery that expires. It does not check the weight of lanes,
-- because that depends on the permits at the time when they were placed.
-- needs: common(at_now, call, earliest, first_write, micros, now, num, split, sub), tenant(origin_and_tenant),
--   lane_state(load_lanes, loaded), slots(allowed_from, lane_ends, slots), finish(before_due, before_weight, finish,
--   hint_weight), taken(TIMER, first_lease_end, set_timer), expiry(set_expiry), doctor(args_from)
--
-- ARGV[..] after the arguments of doctor: 1 to repair, lanes
-- returns now, due, weight, then for each fault: lane, kind, detail
local fix = ARGV[args_from] == '1'
local names = {}
for i = args_from + 1, #ARGV do names[#names + 1] = ARGV[i] end
if fix then first_write(true) end
load_lanes(names)
local answer = { micros, before_due, hint_weight(before_weight) }

-- judge returns the fault of a lane's turn: kind and detail, nil for none.
local function judge(l, listed, parked)
  local n = l.ready
  if lane_ends(l) then
    if n > 0 and (not parked or parked > now) then return 'stuck', n .. ' to end, and no mover comes to it' end
  elseif n == 0 or l.limits.held ~= '-' then
    if listed or parked then return 'turn', n == 0 and 'nothing is ready' or 'it is held' end
  elseif listed and parked then
    return 'turn', 'it has one now and another later'
  elseif not listed and not parked then
    if l.flying < slots(l) then return 'stuck', n .. ' ready, ' .. l.flying .. ' in flight, and no turn' end
  elseif parked and parked > now and parked ~= allowed_from(l) then
    return 'stuck', n .. ' ready, and its turn comes at a time that nothing asks for'
  end
end

-- name_of returns the name that a nameless lane should have. It returns nil if none of its messages can be read or
-- names a URL.
local function name_of(l)
  local element = sub(l.name, 1, 3) ~= 'ep_' and call('LINDEX', READY .. l.name, 0)
  local record = element and call('HGET', MESSAGES, (select(2, split(element))))
  return record and #record > DIGEST and origin_and_tenant(record) or nil
end

local repaired = false
local first, told = first_lease_end(), tonumber(call('ZSCORE', PARKED, TIMER) or 0)
if first == 0 and told > 0 or first > 0 and (told == 0 or told > first) then
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = 'leases', 'timer', 'movers come at ' .. num(told) .. ', the first ends at ' .. num(first)
  if fix then repaired = set_timer() end
end
local expiring, known = math.ceil(earliest(EXPIRING)), tonumber(call('ZSCORE', PARKED, '~expiring') or 0)
if expiring > 0 and (known == 0 or known > math.max(expiring, now + 1000)) then -- movers may make a pause
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = 'expiries', 'timer', 'movers come at ' .. num(known) .. ', the first expires at ' .. num(expiring)
  if fix then repaired = set_expiry() or repaired end
end
for _, l in ipairs(loaded) do
  l.ready = call('LLEN', READY .. l.name)
  local listed, parked = call('ZSCORE', l.limits.pull and PULLS or LANES, l.name), call('ZSCORE', PARKED, l.name)
  local kind, detail = judge(l, listed, parked and tonumber(parked))
  if kind then
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = l.name, kind, detail
    if fix then
      call('ZREM', LANES, l.name)
      call('ZREM', PULLS, l.name)
      call('ZREM', PARKED, l.name)
      l.place, repaired = true, true
    end
  end
  local held, is = l.limits.cut and 'g' or l.limits.held, call('HGET', HELD, l.name)
  if held == '?' then held = '-' end
  if held ~= (is and sub(is, 1, 1) or '-') then
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = l.name, 'held', held
    if fix and held == '-' then
      call('HDEL', HELD, l.name)
    elseif fix then
      call('HSET', HELD, l.name, held .. ' ' .. at_now .. ' system')
    end
  end
  if l.was == '0 0' and call('EXISTS', SHELF .. l.name) == 0 then
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = l.name, 'unused', ''
    if fix then call('HDEL', IN, l.name) end
  end
  local limited = call('HEXISTS', LIMITS, l.name) == 1
  local leads = call('HGET', NAMES, l.name)
  if (l.text or limited or leads) and l.name ~= '*' and not call('ZSCORE', KNOWN, l.name) then
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = l.name, 'unknown_lane', ''
    if fix then call('ZADD', KNOWN, now, l.name) end
  end
  local name = l.text and not leads and name_of(l)
  if name then
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = l.name, 'no_name', ''
    if fix then call('HSET', NAMES, l.name, name) end
  end
end
if repaired then answer[1], answer[2], answer[3] = finish() end
return answer
