-- quick_schedule: the usual call of schedule: usual messages, none of them stored before, to lanes that are in use. It is put
-- behind quick and messages. Its ARGV is schedule's.
-- needs: common(added, at_now, by, call, ceil_now, created_at, earliest, find, first_addition, format, in_chunks,
--   lightest, most_waiting, now, num, sub, tag), leases(write_leases), weight(light_enough), quick(finish_usual,
--   usual_lanes, usual_ready), messages(first_message, ids, log_accepted, names, records, run_ends, told, usual)

-- schedule_quick writes what schedule would write, and returns what schedule would return.
local function schedule_quick()
  local n = #ids
  if not usual or n == 0 then return nil end
  local any = call('EXISTS', tag, FENCED, PARKED) > 0
  if any and (call('EXISTS', tag) == 1 or call('ZSCORE', FENCED, by)) then return nil end
  local stored, seen = call('HMGET', MESSAGES, unpack(ids)), n > 1 and {}
  for i = 1, n do
    if stored[i] or seen and seen[ids[i]] then return nil end
    if seen then seen[ids[i]] = true end
  end
  local list, by_name = usual_lanes(names, ARGV[5])
  if not list then return nil end
  for i = 1, #list do
    local l = list[i]
    if l.pull or most_waiting > 0 and l.waiting + n > most_waiting then return nil end
  end
  local parked_was, lightest_was, due_was = any and earliest(PARKED) or 0, lightest(), earliest(DUE)

  local free_now, most_leased, first_due = tonumber(ARGV[3]), tonumber(ARGV[4]), due_was
  local answers, new_leases, new_dues, nleased, nready, ndue, nbytes = {}, nil, nil, 0, 0, 0, 0
  local fresh_now = { ids[1], records[1] } -- mostly there is one message in a cluster, and to enlarge a table costs more than to make one
  local due, soon, digits_of_due, created, created_digits, last_when, last_place, answer_now
  local r, l = 0, nil
  for i = 1, n do
    if r == 0 or i > run_ends[r] then
      r = r + 1
      l = by_name[names[r]]
    end
    local id, record, when = ids[i], records[i], ARGV[first_message + 3 * i - 1]
    if when ~= last_when then
      last_when, due, last_place = when, ceil_now + tonumber(sub(when, 2)), nil
      soon, digits_of_due = due <= now or when == '+0', format('%d', due)
      if not soon and (first_due == 0 or due < first_due) then first_due = due end
    end
    if not created or find(record, created, 17, true) ~= 17 then
      created, created_digits = sub(record, 17, 22), num(created_at(record))
    end
    fresh_now[2 * i - 1], fresh_now[2 * i] = id, record
    nbytes = nbytes + #record
    l.shelf = added(l.shelf, created_digits, id)
    local place
    if soon and nleased < most_leased and usual_ready(l) == 0 and l.flying < math.min(l.window, l.top) and light_enough(l, free_now - nleased) then
      place, nleased, l.flying = 'l', nleased + 1, l.flying + 1
      new_leases = added(new_leases, at_now, l.name .. ':' .. id)
    else
      l.waiting = l.waiting + 1
      if soon then
        if not usual_ready(l) then return nil end
        place, nready, l.ready = 'r', nready + 1, l.ready + 1
        l.pushed = added(l.pushed, (due < now and format('%d', due) or at_now) .. ':' .. id)
      else
        place, ndue = 'd', ndue + 1
        new_dues = added(new_dues, digits_of_due, l.name .. ':' .. id)
      end
    end
    if place ~= last_place then last_place, answer_now = place, '1' .. place .. ' ' .. digits_of_due end
    answers[i] = answer_now
  end

  -- All is known. From here on schedule_quick writes, first what Redis refuses when memory is full.
  first_addition(false, true)
  call('HSET', MESSAGES, unpack(fresh_now))
  local words_now = table.concat(answers, ' ')
  if told then log_accepted(fresh_now, words_now, nbytes) end
  if new_leases then write_leases(new_leases) end
  local facts = {}
  for i = 1, #list do
    l = list[i]
    in_chunks('ZADD', SHELF .. l.name, l.shelf)
    if l.pushed then
      in_chunks('RPUSH', READY .. l.name, l.pushed)
      l.place = l.ready == #l.pushed
    end
    if find(l.name, 'ep_', 1, true) == 1 then facts = added(facts, l.name, l.version) end
    if l.slow == UNKNOWN and l.flying > l.had then facts = added(facts, l.name, '?') end
  end
  if new_dues then call('ZADD', DUE, unpack(new_dues)) end
  local t, d, w = finish_usual(list, { in_flight = nleased, ready = nready, scheduled = ndue }, first_due, parked_was, lightest_was, due_was)
  return { t, d, w, facts, words_now }
end
local quickly = schedule_quick()
if quickly then return quickly end
