-- quick: what the usual calls of schedule, claim and settle need, before the functions of the other parts exist. It is put
-- behind weight. It takes no arguments of its own: ARGV[3..] is the script's.
-- needs: common(add_counts, added, at_now, by, call, earliest, find, format, in_chunks, lightest, match, max_window,
--   micros, now, num, publish, silent, sooner, sure), weight(weight)
--
-- To create the functions and tables of all parts costs as much as to settle several deliveries, and in a cluster, or with many
-- lanes, a call has only a few. So a call of which all is usual is answered by schedule_quick, claim_quick or settle_quick,
-- which are put behind this part. Each of them reads all that it needs before it writes. It returns nil for any other call, and
-- has changed nothing then, and the whole script goes on behind it. So a change of a rule there may be one here too.

-- usual_lanes reads lanes, and returns a list of them and a table by name. It returns nil if one of them is not usual: it is new,
-- or its texts say anything that may hold it up. Fields: those of lane_state, but had and inside are what :in says, top and
-- version what :limits says, and learned is true if its text changes. some: their names, maybe more than once. epoch: of the
-- partition, as the caller knows it; nil if it does not matter.
local function usual_lanes(some, epoch)
  local once, list, by_name = some, {}, {}
  if #some > 1 then
    once = {}
    for i = 1, #some do
      local name = some[i]
      if not by_name[name] then by_name[name], once[#once + 1] = true, name end
    end
  end
  local n = #once
  local insides, texts = call('HMGET', IN, unpack(once)), call('HMGET', LANE, unpack(once))
  once[n + 1], once[n + 2] = '*', '~epoch'
  local limits = call('HMGET', LIMITS, unpack(once))
  once[n + 1], once[n + 2] = nil, nil
  if limits[n + 1] or epoch and limits[n + 2] ~= epoch then return nil end
  for i = 1, n do
    local name, inside, top, version = once[i], insides[i], max_window, 0
    if limits[i] then
      local v, most = match(limits[i], '^(%d+) (%d+) 0 0 %-$') -- no rate, no order, not held
      if not v or #v > 15 or #most > 15 then return nil end
      version = v + 0
      if most ~= '0' then top = most + 0 end
    elseif find(name, 'ep_', 1, true) == 1 then
      return nil
    end
    local window, class = match(texts[i] or '', '^([1-9]%d*) 0 0 0 0 0 ([0-8]) 0 0$')
    local flying, waiting = match(inside or '', '^(%d+) (%d+)$')
    if not window or not flying or #window > 15 or #inside >= 20 then return nil end
    flying = flying + 0
    local l = {
      name = name, inside = inside, flying = flying, had = flying, waiting = waiting + 0, window = window + 0, slow = class + 0,
      top = top, version = version, pull = find(name, 'q_', 1, true) == 1, place = false, learned = false,
    }
    list[i], by_name[name] = l, l
  end
  return list, by_name
end

-- usual_ready returns the length of the ready list of a lane, nil if the key is no list.
local function usual_ready(l)
  if not l.ready then
    local n = l.waiting > 0 and redis.pcall('LLEN', READY .. l.name) or 0
    l.ready = type(n) == 'number' and n or nil
  end
  return l.ready
end

-- finish_usual does what finish does. The ready list of each lane that has to be placed was read. due: the earliest time of :due
-- now. The last three were read before the first write: the earliest time of :parked, the weight of the lightest lane, and the
-- earliest time of :due. So these keys, and those that usual_lanes reads, are of their own kind, and need no sure.
local function finish_usual(list, counts, due, parked_was, lightest_was, due_was)
  local ins, texts, claimable, unlisted, unparked, takeable, untaken -- nil while they are empty, as mostly most of them are
  for i = 1, #list do
    local l = list[i]
    local name = l.name
    if l.place or l.flying ~= l.had then
      local may = l.ready > 0 and l.flying < (l.pull and l.top or math.min(l.window, l.top))
      if may and l.pull then
        if sure('ZADD', PULLS, 'NX', at_now, name) == 1 then takeable = added(takeable, name) end
      elseif may then
        claimable = added(claimable, format('%d', weight(l) * TURN + now), name)
      elseif l.pull and (l.ready > 0 or l.place) then
        untaken = added(untaken, name)
      elseif l.ready > 0 or l.place then
        unlisted = added(unlisted, name)
      end
      if l.ready > 0 or l.place then unparked = added(unparked, name) end
    end
    local inside = format('%d %d', l.flying > 0 and l.flying or 0, l.waiting > 0 and l.waiting or 0)
    if inside ~= l.inside then
      ins = added(ins, name, inside)
      if l.learned then texts = added(texts, name, format('%d 0 0 0 0 0 %d 0 0', l.window, l.slow)) end
    end
  end
  if unlisted then call('ZREM', LANES, unpack(unlisted)) end
  if untaken then in_chunks('ZREM', PULLS, untaken) end
  if parked_was == 0 then unparked = nil end
  if unparked then call('ZREM', PARKED, unpack(unparked)) end
  if claimable then call('ZADD', LANES, unpack(claimable)) end
  if ins then call('HSET', IN, unpack(ins)) end
  if texts then call('HSET', LANE, unpack(texts)) end
  add_counts(COUNTS, counts)

  local due_now, before = sooner(due, unparked and earliest(PARKED) or parked_was), sooner(due_was, parked_was)
  local lightest_now = (unlisted or claimable) and lightest() or lightest_was
  if silent == '0' then
    if due_now > 0 and (before == 0 or due_now < before) or lightest_now >= 0 and (lightest_was < 0 or lightest_now < lightest_was) then
      publish(num(due_now) .. ' ' .. lightest_now .. ' ' .. by)
    end
    if takeable then publish('q ' .. table.concat(takeable, ' ')) end
  end
  return micros, due_now, lightest_now
end
