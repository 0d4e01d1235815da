-- claim: lease ready deliveries to an instance, the lightest lanes first, fair turns among equals.
-- needs: common(all_permits, by, call, first_write, floor, now, num, permits, split, sub, sure, tag),
--   lane_state(all_paused, lanes, load_lanes, loaded), slots(burden, light_enough, slots, take_tokens, tokens_of,
--   weight), sums(append_pair, sums), leases(write_leases), finish(finish), ends(ended, write_ends),
--   lease_ready(lease_ready)
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
local TURN_MOST = 8 -- deliveries a lane gets in one turn
local LANES_READ = 16 -- at once: mostly a few lanes have enough work, and each costs as much as a delivery

local wanted, free, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
sums.whole = call('EXISTS', tag, FENCED, MARKS) == 0
if not sums.whole and call('ZSCORE', FENCED, by) then return { 'fenced' } end
local heads = call('ZRANGE', LANES, 0, wanted - 1)
local stale = 0 -- lanes that are placed anew
local function nothing()
  if #loaded > 0 then first_write() end -- finish corrects what another clock has set
  local t, d, w = finish()
  return { t, d, w, 0, 0, stale, {} }
end
if #heads == 0 or free <= 0 then return nothing() end
local nread = 0
local function read_more()
  local upto = math.min(nread + LANES_READ, #heads)
  load_lanes({ unpack(heads, nread + 1, upto) })
  nread = upto
end
read_more()
if all_paused then return nothing() end

-- All turns are given before the first delivery is taken, because one command takes all deliveries of a lane.
local turns, given = {}, {} -- lane, deliveries of each turn; lane -> deliveries of all its turns
local lists = {} -- lane -> the head of its list

-- give_turns chooses the deliveries.
local function give_turns()
  -- Lanes come in the order of their weight. A lane that had its turn comes again behind those that are as light.
  local again, first, next_head = {}, 1, 1
  local function next_lane()
    if next_head > nread and nread < #heads then read_more() end
    local a, b = lanes[heads[next_head]], again[first]
    if a and (not b or weight(a) <= weight(b)) then
      next_head = next_head + 1
      return a
    end
    if b then first = first + 1 end
    return b
  end
  local function comes_again(l)
    local i = #again
    while i >= first and weight(again[i]) > weight(l) do
      again[i + 1] = again[i]
      i = i - 1
    end
    again[i + 1] = l
  end

  -- turn is how many deliveries a lane may have taken in one turn: as many as find the lane lighter than the free
  -- permits. So lanes that begin to hang leave the permits that their class keeps. An instance that holds nothing takes
  -- one in any case. Each delivery taken adds one to all permits in flight, and takes one from the caller's free ones.
  -- The turn ends where both parts meet.
  local function turn(l)
    if l.limits.pull then -- an older version placed it, or its endpoint's limits were lost
      l.stray = true
      return 0
    end
    if l.limits.held ~= '-' or l.state.till > now then return 0 end
    local fair = math.max(1, math.ceil((free * all_permits - burden(l) * permits) / (permits + all_permits)))
    local most = l.slow == UNKNOWN and l.flying == 0 and 1 or TURN_MOST -- its weight grows with its first attempt
    return math.min(most, fair, slots(l) - l.flying, wanted, free, tokens_of(l))
  end

  local whole = {} -- lane -> whether its whole list was read

  -- read_head reads a lane's list as far as a turn goes, and one more element, which shows whether something is left.
  -- It reads as far as all turns may go if the lane comes again, or is the only one.
  local alone = #heads == 1
  local function read_head(l, n)
    local list, had = lists[l], given[l] or 0
    if not list then
      local upto = alone and math.max(n, math.min(wanted, slots(l) - l.flying)) or n
      list = sure('LRANGE', READY .. l.name, 0, upto)
      lists[l], whole[l] = list, #list <= upto
    elseif not whole[l] and #list <= had + n then
      local upto, length = had + math.min(wanted, slots(l) - l.flying), #list
      local more = call('LRANGE', READY .. l.name, length, upto)
      for i = 1, #more do list[length + i] = more[i] end
      whole[l] = #list <= upto
    end
    l.ready = #list - had
  end

  -- A lane that is too heavy may still be listed by old shares, from before instances came or went. It is placed anew
  -- then, and the next one is tried. One call does so for a few lanes.
  local STALE_MOST = 16
  while wanted > 0 do
    local l = next_lane()
    if not l then break end
    local heavy = not light_enough(l, free)
    if heavy then
      if given[l] or stale == STALE_MOST then break end
      local score = tonumber(call('ZSCORE', LANES, l.name)) or SANE
      if floor(math.min(score, SANE) / TURN) == weight(l) then break end
      stale = stale + 1
      if next_head > #heads then -- only as many lanes were read as deliveries are wanted
        local more = call('ZRANGE', LANES, #heads, #heads + STALE_MOST - stale)
        for i = 1, #more do heads[#heads + 1] = more[i] end
      end
    end
    local n = heavy and 0 or math.max(turn(l), 0)
    if not heavy then read_head(l, n) end
    n = math.min(n, l.ready or 0)
    if n > 0 then
      append_pair(turns, l, n)
      given[l] = (given[l] or 0) + n
      l.flying, l.waiting, free, wanted = l.flying + n, l.waiting - n, free - n, wanted - n
      l.ready = l.ready - n
      if l.limits.interval > 0 then take_tokens(l, n) end
    end
    if l.ready and l.ready > l.waiting then l.waiting = l.ready end -- its count was lost; the rest of its list must not be lost too
    if l.ready == 0 then
      l.emptied = true
    elseif n > 0 and turn(l) > 0 then
      comes_again(l)
    end
    l.place = true
  end
end
give_turns()
if #turns == 0 then return nothing() end

local deliveries, dues, ids, owners, k = {}, {}, {}, {}, 0
local used = {}
for i = 1, #turns, 2 do
  local l, at = turns[i], used[turns[i]] or 0
  local list = lists[l]
  for j = at + 1, at + turns[i + 1] do
    local due, id = split(list[j])
    k = k + 1
    deliveries[k], dues[k], ids[k], owners[k] = l.name .. ':' .. id, due, id, l
  end
  used[l] = at + turns[i + 1]
end

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
