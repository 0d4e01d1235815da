-- take: lease ready deliveries of lanes that are taken from, an equal share of each.
-- needs: common(by, call, ceil_now, first_write, in_chunks, now, num, split, sub, sure), leases(write_leases),
--   lane_state(all_paused, lanes, load_lanes, loaded), slots(slots, take_tokens, tokens_of), sums(append_pair),
--   finish(finish), ends(ended, write_ends), lease_ready(lease_ready), taken(lease_until)
--
-- ARGV[3] most   deliveries to lease
-- ARGV[4] bytes  most of records to answer, but for one delivery
-- ARGV[5] lasts  ms until the leases end by themselves; 0: they are the caller's, as leases of claim
-- ARGV[6] token  of leases that end by themselves
-- ARGV[7] owner  of them
-- ARGV[8] suspects  most of the deliveries that are suspects, if the leases are the caller's
-- ARGV[9..]      the lanes, each once
-- returns now, due, weight, ms at which the leases end, number that ended instead, number without a record, lanes of which
--   more may be taken now, versions (lane and version of its limits for each lane of an endpoint), failures (delivery
--   and newest entry of its history, for each that failed before, if the leases are the caller's), then for each: delivery,
--   due ms, progress (nil: none), record; "fenced" alone when the instance was declared dead
local wanted, most_bytes, lasts = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local names = { unpack(ARGV, 9) }
if call('ZSCORE', FENCED, by) then return { 'fenced' } end
first_write()
local answer = { 0, 0, 0, 0, 0, 0, {}, {}, {} }
load_lanes({ unpack(names) })

-- free returns how many deliveries of a lane may be taken now, by its limits and its ready list. It reads the list whatever the
-- count of the lane is, because that may have been lost. It places the lane again, because a lane that is listed without need
-- would make its consumers poll again and again.
local function free(l)
  if not l.limits.pull then return 0 end
  l.place, l.ready = true, sure('LLEN', READY .. l.name)
  l.waiting = math.max(l.waiting, l.ready)
  if all_paused or l.limits.held ~= '-' or l.state.till > now then return 0 end
  return math.max(0, math.min(slots(l) - l.flying, tokens_of(l), l.ready))
end

-- The next lanes get the rest of the share of a lane; a lane may get a second share.
local shares, most_of = {}, {}
local left = wanted
for _, name in ipairs(names) do most_of[name] = free(lanes[name]) end
for round = 1, 2 do
  for i, name in ipairs(names) do
    local fair = round == 1 and math.ceil(left / (#names - i + 1)) or left
    local n = math.min(fair, most_of[name] - (shares[name] or 0), left)
    if n > 0 then shares[name], left = (shares[name] or 0) + n, left - n end
  end
end

local suspects = lasts == 0 and tonumber(ARGV[8]) or nil -- the death of an instance ends no other lease
local taken, given, k = { names = {}, dues = {}, ids = {}, owners = {}, suspects = suspects }, {}, 0
for _, name in ipairs(names) do
  local l, n = lanes[name], shares[name]
  if n then
    local list = sure('LRANGE', READY .. name, 0, n - 1)
    for _, element in ipairs(list) do
      k = k + 1
      taken.dues[k], taken.ids[k] = split(element)
      taken.names[k], taken.owners[k] = name .. ':' .. taken.ids[k], l
    end
    given[l] = #list
    l.flying, l.waiting, l.ready = l.flying + #list, l.waiting - #list, l.ready - #list
    if l.limits.interval > 0 then take_tokens(l, #list) end
    l.emptied = l.ready == 0
  end
end

if k > 0 then
  local leases
  leases, answer[6] = lease_ready(taken, given, most_bytes, answer)
  if lasts == 0 then
    if call('HLEN', TOKENS) > 0 then in_chunks('HDEL', TOKENS, taken.names) end -- the last lease is the caller's now
    write_leases(leases)
    for at = 10, #answer, 4 do
      local newest = answer[at + 2] and sure('LINDEX', HISTORY .. answer[at], 0)
      if newest then append_pair(answer[9], answer[at], newest) end
    end
  elseif #leases > 0 then
    local rungs = {}
    for at = 10, #answer, 4 do rungs[answer[at]] = answer[at + 2] end
    answer[4] = num(ceil_now + lasts)
    lease_until(leases, ceil_now + lasts, ARGV[6], ARGV[7], rungs)
  end
end
for _, l in ipairs(loaded) do
  if sub(l.name, 1, 3) == 'ep_' then
    answer[8][#answer[8] + 1] = l.name
    answer[8][#answer[8] + 1] = l.limits.v
  end
end
answer[5] = (#ended.done + #ended.cancelled + #ended.dead) / 2
write_ends()
answer[1], answer[2], answer[3] = finish()
if not all_paused then
  for i, since in ipairs(call('ZMSCORE', PULLS, unpack(names))) do
    if since then answer[7][#answer[7] + 1] = names[i] end
  end
end
return answer
