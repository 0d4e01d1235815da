-- finish: the end of a script: it places and writes the lanes, writes the counts and the log, and returns a hint about the next
-- work. It is put behind the other shared parts. It takes no arguments of its own: ARGV[3..] is the script's.
-- needs: common(add_counts, added, at_now, by, call, earliest, format, in_chunks, lightest, micros, now, num, publish,
--   silent, sooner, sure, write_log), leases(force_table), weight(weight), limits(pauses_all), lane_state(all_paused,
--   lane_text, loaded, ready_length), slots(allowed_from, lane_ends, slots), sums(sums)

local before_parked, before_weight = earliest(PARKED), lightest()
sums.due, sums.lightest = earliest(DUE), before_weight
local before_due = sooner(sums.due, before_parked)

-- hint_weight returns the weight for a hint: -1 while all lanes are paused.
local function hint_weight(w)
  if w < 0 then return w end
  if all_paused == nil then all_paused = pauses_all(call('HGET', LIMITS, '*')) end
  return all_paused and -1 or w
end

-- place_lanes puts each changed lane where it belongs. A lane that may be claimed from goes to :lanes, or to :parked if it has
-- to wait. A lane whose ready deliveries have to end goes to :parked, so that the mover of any instance ends them. Other lanes
-- are in neither. A lane with consumers goes to :pulls instead of :lanes. place_lanes reports whether :parked may have changed.
local function place_lanes()
  local claimable, parked, unlisted, unparked, untaken -- nil while they are empty, as mostly most of them are
  for _, l in ipairs(loaded) do
    if l.place or l.emptied or l.flying ~= l.had then
      local n, name, pull = ready_length(l), l.name, l.limits.pull
      local at -- ms from which it may be claimed from; nil: never
      if n > 0 then
        if lane_ends(l) then
          at = now
        elseif l.limits.held == '-' and l.flying < slots(l) then
          at = allowed_from(l)
        end
      end
      if at and (at > now or lane_ends(l)) then
        parked = added(parked, num(at), name)
        if pull then untaken = added(untaken, name) else unlisted = added(unlisted, name) end
      elseif at and pull then
        if sure('ZADD', PULLS, 'NX', at_now, name) == 1 then sums.takeable[#sums.takeable + 1] = name end
        unparked = added(unparked, name)
      elseif at then
        claimable = added(claimable, format('%d', weight(l) * TURN + now), name)
        unparked = added(unparked, name)
      elseif n > 0 or l.emptied or l.place then
        if pull then untaken = added(untaken, name) else unlisted = added(unlisted, name) end
        unparked = added(unparked, name)
      end
      if l.stray then unlisted = added(unlisted, name) end
    end
  end
  sums.listed = (unlisted or claimable) ~= nil
  if unlisted then in_chunks('ZREM', LANES, unlisted) end
  if untaken then in_chunks('ZREM', PULLS, untaken) end
  if unparked and before_parked > 0 then in_chunks('ZREM', PARKED, unparked) end
  if claimable then in_chunks('ZADD', LANES, claimable) end
  if parked then in_chunks('ZADD', PARKED, parked) end
  return parked ~= nil or before_parked > 0 and unparked ~= nil
end

-- write_lanes writes the changed states.
local function write_lanes()
  local ins, texts, made, names, fresh -- lists are nil while they are empty
  for _, l in ipairs(loaded) do
    -- A wrong count may be below zero here.
    local flying, waiting = l.flying, l.waiting
    local inside = format('%d %d', flying > 0 and flying or 0, waiting > 0 and waiting or 0)
    local used = inside ~= (l.was or '0 0') -- a lane that the script only read gets no state
    if sums.bare and sums.bare[l.name] and inside == '0 0' then
      sure('HDEL', IN, l.name)
    elseif used then
      ins = added(ins, l.name, inside)
      fresh = fresh or not l.was
    end
    local same = l.text and not l.own and l.window == l.state.window and l.slow == l.state.slow -- Lua formats a text slowly
    if not same and (used or l.own) then
      local text = lane_text(l)
      if text ~= l.text then
        texts = added(texts, l.name, text)
        if not l.text then
          made = added(made, at_now, l.name)
          if l.leads then names = added(names, l.name, l.leads) end
        end
      end
    end
  end
  if ins then in_chunks('HSET', IN, ins) end
  if texts then in_chunks('HSET', LANE, texts) end
  if made then in_chunks('ZADD', KNOWN, made) end
  if names then in_chunks('HSET', NAMES, names) end
  if fresh then force_table(IN) end
  if made then force_table(LANE) end
end

-- finish ends a script. It writes the changed lanes and the counts. If there is work earlier than the other instances know, it
-- publishes a hint. It returns the hint for the caller: now in us, so that answers have an order, the next due time, the
-- weight. If deliveries died, the weight is a text with a line for each: attempts, reason, delivery. So a script without
-- deaths pays nothing for them.
local function finish()
  local moved = place_lanes()
  write_lanes()
  add_counts(COUNTS, sums.counts)
  add_counts(BURIED, sums.buried)
  add_counts(ENDS, sums.ends)
  if sums.readied then sure('HSET', LIMITS, '~readied', num(now)) end
  for k = 1, #sums.log, 64 do -- lines of an entry, because readers read whole entries
    write_log('l', table.concat(sums.log, '\n', k, math.min(k + 63, #sums.log)))
  end

  local due = sooner(sums.kept and sums.due or earliest(DUE), (moved or sums.parked) and earliest(PARKED) or before_parked)
  local w = hint_weight(sums.listed and lightest() or sums.lightest)
  local earlier = due > 0 and (before_due == 0 or due < before_due)
  local lighter = w >= 0 and (before_weight < 0 or w < before_weight)
  if silent == '0' and (earlier or lighter or #sums.takeable > 0) then
    local hints = {}
    if earlier or lighter then hints[1] = num(due) .. ' ' .. w .. ' ' .. by end
    if #sums.takeable > 0 then hints[#hints + 1] = 'q ' .. table.concat(sums.takeable, ' ') end
    for _, hint in ipairs(hints) do publish(hint) end
  end
  if #sums.died > 0 then w = w .. '\n' .. table.concat(sums.died, '\n') end
  return micros, due, w
end
