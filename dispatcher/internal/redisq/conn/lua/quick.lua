-- quick: the usual call of settle, before the functions of the other parts exist. It is put behind common. Its ARGV is
-- settle's.
-- needs: common(add_counts, added, all_permits, at_now, by, call, earliest, end_time, find, first_write, floor, format,
--   in_chunks, lane_of, lightest, match, max_window, micros, now, num, publish, read_fields, silent, sooner, sub, tag,
--   write_log)
--
-- returns now, due, weight and all that settle returns; a call that is not usual goes on behind it
--
-- To create the functions and tables of all parts costs as much as to settle several deliveries, and in a cluster, or with many
-- lanes, a call has only a few. So a call of which all is usual is settled here: first successes by leases of the caller, of
-- lanes that nothing holds up, and nothing else is known of the deliveries. settle_quick looks at all of that before it
-- writes. It returns nil for any other call, and has changed nothing then.

-- settle_quick writes what settle would write, and returns what settle would return.
local function settle_quick()
  local at = 6 + 3 * tonumber(ARGV[3])
  local lane_classes, statuses_of = ARGV[at - 2], ARGV[at - 1]
  if not lane_classes or lane_classes == '' or find(lane_classes, '-', 1, true) then return nil end
  if call('EXISTS', tag, MARKS, TOKENS, EXPIRING, JOBS, UNOPENED) > 0 then return nil end
  local successes = { unpack(ARGV, at) }
  local n = #successes
  if n ~= #lane_classes then return nil end
  local known, leased_at = read_fields(PROGRESS, successes), call('ZMSCORE', LEASES .. by, unpack(successes))
  for k = 1, n do
    if not leased_at[k] or known[k] then return nil end
  end

  -- Successes of one lane that are behind each other: its name, and its last one.
  local names, last_of, seen, runs, prefix = {}, {}, {}, 0, nil
  for k = 1, n do
    local delivery = successes[k]
    if not prefix or find(delivery, prefix, 1, true) ~= 1 then
      local name = lane_of(delivery)
      if seen[name] then return nil end
      runs, prefix, seen[name] = runs + 1, name .. ':', true
      names[runs] = name
    end
    last_of[runs] = k
  end
  local counts_of, states = call('HMGET', IN, unpack(names)), call('HMGET', LANE, unpack(names))
  names[runs + 1] = '*'
  local limit_texts = call('HMGET', LIMITS, unpack(names))
  names[runs + 1] = nil
  if limit_texts[runs + 1] then return nil end
  local parked_at, lightest_was, due_at = earliest(PARKED), lightest(), earliest(DUE)

  local ins, texts, claimable, unlisted, unparked, before = nil, nil, nil, nil, nil, 0
  for r = 1, runs do
    local name, text, inside, top = names[r], states[r], counts_of[r], max_window
    if sub(name, 1, 2) == 'q_' then return nil end
    if limit_texts[r] then
      local v, most = match(limit_texts[r], '^(%d+) (%d+) 0 0 %-$') -- no rate, no order, not held
      if not v or #v > 15 or #most > 15 then return nil end
      if most ~= '0' then top = most + 0 end
    elseif sub(name, 1, 3) == 'ep_' then
      return nil
    end
    local window, class = match(text or '', '^([1-9]%d*) 0 0 0 0 0 ([0-8]) 0 0$')
    local flying, waiting = match(inside or '', '^(%d+) (%d+)$')
    if not window or not flying or #window > 15 or #inside >= 20 then return nil end

    local slow, grown = sub(lane_classes, last_of[r], last_of[r]) + 0, math.min(window + last_of[r] - before, top)
    flying, waiting, before = flying - last_of[r] + before, waiting + 0, last_of[r]
    local inside_now = format('%d %d', flying > 0 and flying or 0, waiting)
    if inside_now ~= inside then
      ins = added(ins, name, inside_now)
      if grown ~= window + 0 or slow ~= class + 0 then
        texts = added(texts, name, format('%d 0 0 0 0 0 %d 0 0', grown, slow))
      end
    end
    local ready = waiting > 0 and redis.pcall('LLEN', READY .. name) or 0
    if type(ready) ~= 'number' then return nil end
    if ready > 0 then
      if flying < grown then
        local burden_class = slow == UNKNOWN and flying > 0 and WORST or slow
        local heavy = math.max(0, flying) + floor(burden_class * all_permits / CLASS_PERMITS)
        claimable = added(claimable, format('%d', math.min(MOST_WEIGHT, floor(WHOLE * heavy / all_permits)) * TURN + now), name)
      else
        unlisted = added(unlisted, name)
      end
      unparked = added(unparked, name)
    end
  end

  -- All is known. From here on settle_quick writes, in the order of settle.
  local codes_now = string.rep('1', n)
  first_write(false, true)
  in_chunks('ZREM', LEASES .. by, successes)
  local first = 1
  for k = 4, at - 3, 3 do
    local last = first + ARGV[k] - 1
    write_log('l', ARGV[k + 1], 'c', sub(codes_now, first, last), 'e', ARGV[k + 2])
    first = last + 1
  end
  local done, score = {}, end_time() > now and num(end_time()) or at_now
  for k = 1, n do
    local status = statuses_of ~= '' and sub(statuses_of, 3 * k - 2, 3 * k) or '200'
    done[2 * k - 1], done[2 * k] = status == '200' and score or score .. '.' .. status, successes[k]
  end
  in_chunks('ZADD', DONE, done)
  if unlisted then in_chunks('ZREM', LANES, unlisted) end
  if unparked and parked_at > 0 then in_chunks('ZREM', PARKED, unparked) end
  if claimable then in_chunks('ZADD', LANES, claimable) end
  if ins then in_chunks('HSET', IN, ins) end
  if texts then in_chunks('HSET', LANE, texts) end
  add_counts(COUNTS, { in_flight = -n, delivered = n })

  local due = sooner(due_at, unparked and parked_at > 0 and earliest(PARKED) or parked_at)
  local lightest_now = (unlisted or claimable) and lightest() or lightest_was
  if silent == '0' and lightest_now >= 0 and (lightest_was < 0 or lightest_now < lightest_was) then
    publish(num(due) .. ' ' .. lightest_now .. ' ' .. by)
  end
  return { micros, due, lightest_now, {}, codes_now, {} }
end
local quickly = settle_quick()
if quickly then return quickly end
