-- claim: lease ready deliveries to an instance, the lightest lanes first, fair turns among equals.
-- needs: common(by, call, first_write, now, num, sub, tag), leases(write_leases), turns(give_turns, take_turns),
--   lane_state(all_paused, lanes, load_lanes, loaded), slots(slots, take_tokens, tokens_of), sums(append_pair, sums),
--   finish(finish), ends(ended, write_ends), lease_ready(lease_ready)
--
-- ARGV[3] wanted  most deliveries to lease
-- ARGV[4] free    free permits of the instance, those wanted among them
-- ARGV[5] bytes   most of records to answer, but for one delivery
-- ARGV[6] suspects  most of them that are suspects, each of another lane
-- ARGV[7..]       lanes of which the instance has a suspect
-- returns now, due, weight, number that ended instead, number without a record, number of lanes placed anew and of suspects
--   that wait for a time, facts (lane and version of its limits for each lane of an endpoint; lane and
--   "<since ms>-<wait ms>" for each that waits for our own network; lane and ? for each that never responded), then for
--   each: delivery, due ms, progress (nil: none), record (nil: the caller has to read it); "fenced" alone when the instance was declared dead

local wanted, free, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
sums.whole = call('EXISTS', tag, FENCED, MARKS) == 0
if not sums.whole and call('ZSCORE', FENCED, by) then return { 'fenced' } end
local heads = call('ZRANGE', LANES, 0, wanted - 1)

-- room_of returns how many more deliveries of a lane may be in flight, by all that its texts say.
local function room_of(l)
  if l.limits.pull then -- an older version placed it, or its endpoint's limits were lost
    l.stray = true
    return 0
  end
  if l.limits.held ~= '-' or l.state.till > now then return 0 end
  return math.min(slots(l) - l.flying, tokens_of(l))
end
local function take_room(l, n)
  if l.limits.interval > 0 then take_tokens(l, n) end
end
local function read_names(names)
  load_lanes(names)
  return not all_paused
end
local turns, given, lists, stale
if #heads > 0 and free > 0 then turns, given, lists, stale = give_turns(heads, wanted, free, lanes, read_names, room_of, take_room) end
if not turns or #turns == 0 then
  if #loaded > 0 then first_write() end -- finish corrects what another clock has set
  local t, d, w = finish()
  return { t, d, w, 0, 0, stale or 0, {} }
end

local deliveries, dues, ids, owners = take_turns(turns, lists)
local answer = { 0, 0, 0, 0, 0, 0, {} }
do
  local apart = {}
  for i = 8, #ARGV do apart[ARGV[i]] = true end
  local taken = {
    names = deliveries, dues = dues, ids = ids, owners = owners, suspects = tonumber(ARGV[6]), apart = apart, unread = ARGV[7] == '1',
  }
  first_write(false, sums.whole)
  local leases, lost, later = lease_ready(taken, given, most_bytes, answer)
  sums.kept = #leases == 2 * #deliveries -- no delivery ended or waits, so :due is as before
  write_leases(leases)
  answer[5], answer[6] = lost, stale + later
end
for _, l in ipairs(loaded) do
  if sub(l.name, 1, 3) == 'ep_' then
    answer[7][#answer[7] + 1] = l.name
    answer[7][#answer[7] + 1] = l.limits.v
  end
  if l.state.egress > 0 then
    answer[7][#answer[7] + 1] = l.name
    answer[7][#answer[7] + 1] = num(l.state.egress) .. '-' .. num(l.state.wait)
  end
  if l.slow == UNKNOWN and l.flying > l.had then append_pair(answer[7], l.name, '?') end
end
answer[4] = (#ended.done + #ended.cancelled + #ended.dead) / 2
write_ends()
answer[1], answer[2], answer[3] = finish()
return answer
