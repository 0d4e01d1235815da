-- turns: which ready deliveries a claim leases, the lightest lanes first, fair turns among equals. It is put behind weight. It takes no arguments of its own: ARGV[3..] is the script's.
-- needs: common(all_permits, call, floor, permits, split, sure), weight(burden, light_enough, weight)

-- give_turns chooses up to wanted deliveries from the lanes with these names, the lightest first. All turns are given before the
-- first delivery is taken, because one command takes all deliveries of a lane. It returns the turns (lane and deliveries of each),
-- the deliveries of each lane, the heads of the ready lists that it has read, and the number of lanes that are placed anew. It
-- changes flying, waiting, ready, emptied and place of the lanes. It returns nil if read_names ends it. by_name has the lanes
-- that were read. The functions are the caller's: read_names reads lanes and reports whether to go on; room_of returns how many
-- more deliveries of a lane may be in flight; take_room notes deliveries that a lane gives, nil if there is nothing to note.
local function give_turns(heads, wanted, free, by_name, read_names, room_of, take_room)
  local TURN_MOST = 8 -- deliveries a lane gets in one turn
  local LANES_READ = 16 -- at once: mostly a few lanes have enough work, and each costs as much as a delivery
  local STALE_MOST = 16
  local turns, given, lists, whole, stale = {}, {}, {}, {}, 0 -- whole: lane -> whether its whole list was read
  local alone, nread = #heads == 1, 0

  local function read_more()
    local upto = math.min(nread + LANES_READ, #heads)
    local goes_on = read_names({ unpack(heads, nread + 1, upto) })
    nread = upto
    return goes_on
  end
  if not read_more() then return nil end

  -- Lanes come in the order of their weight. A lane that had its turn comes again behind those that are as light.
  local again, first, next_head = {}, 1, 1
  local function next_lane()
    if next_head > nread and nread < #heads and not read_more() then return nil, true end
    local a, b = by_name[heads[next_head]], again[first]
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
    local fair = math.max(1, math.ceil((free * all_permits - burden(l) * permits) / (permits + all_permits)))
    local most = l.slow == UNKNOWN and l.flying == 0 and 1 or TURN_MOST -- its weight grows with its first attempt
    return math.min(most, fair, wanted, free, room_of(l))
  end

  -- read_head reads a lane's list as far as a turn goes, and one more element, which shows whether something is left.
  -- It reads as far as all turns may go if the lane comes again, or is the only one.
  local function read_head(l, n)
    local list, had = lists[l], given[l] or 0
    if not list then
      local upto = alone and math.max(n, math.min(wanted, room_of(l))) or n
      list = sure('LRANGE', READY .. l.name, 0, upto)
      lists[l], whole[l] = list, #list <= upto
    elseif not whole[l] and #list <= had + n then
      local upto, length = had + math.min(wanted, room_of(l)), #list
      local more = call('LRANGE', READY .. l.name, length, upto)
      for i = 1, #more do list[length + i] = more[i] end
      whole[l] = #list <= upto
    end
    l.ready = #list - had
  end

  -- A lane that is too heavy may still be listed by old shares, from before instances came or went. It is placed anew
  -- then, and the next one is tried. One call does so for a few lanes.
  while wanted > 0 do
    local l, refused_all = next_lane()
    if refused_all then return nil end
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
      local k = #turns
      turns[k + 1], turns[k + 2] = l, n
      given[l] = (given[l] or 0) + n
      l.flying, l.waiting, free, wanted = l.flying + n, l.waiting - n, free - n, wanted - n
      l.ready = l.ready - n
      if take_room then take_room(l, n) end
    end
    if l.ready and l.ready > l.waiting then l.waiting = l.ready end -- its count was lost; the rest of its list must not be lost too
    if l.ready == 0 then
      l.emptied = true
    elseif n > 0 and turn(l) > 0 then
      comes_again(l)
    end
    l.place = true
  end
  return turns, given, lists, stale
end

-- take_turns returns the deliveries of the turns: names, due times, ids and lanes.
local function take_turns(turns, lists)
  local list, dues_of, ids_of, lanes_taken, used, k = {}, {}, {}, {}, {}, 0
  for i = 1, #turns, 2 do
    local l = turns[i]
    local at = used[l] or 0
    for j = at + 1, at + turns[i + 1] do
      local due, id = split(lists[l][j])
      k = k + 1
      list[k], dues_of[k], ids_of[k], lanes_taken[k] = l.name .. ':' .. id, due, id, l
    end
    used[l] = at + turns[i + 1]
  end
  return list, dues_of, ids_of, lanes_taken
end
