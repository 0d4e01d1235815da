-- quick_settle: the usual call of settle: first successes by leases of the caller, and nothing else is known of the deliveries.
-- It is put behind quick. Its ARGV is settle's.
-- needs: common(at_now, by, call, earliest, end_time, find, first_write, in_chunks, lane_of, lightest, now, num,
--   read_fields, sub, tag, write_log), quick(finish_usual, usual_lanes, usual_ready)

-- settle_quick writes what settle would write, and returns what settle would return.
local function settle_quick()
  local at = 6 + 3 * tonumber(ARGV[3])
  local lane_classes, statuses_of = ARGV[at - 2], ARGV[at - 1]
  if not lane_classes or lane_classes == '' or find(lane_classes, '-', 1, true) then return nil end
  local elsewhere = false -- whether other keys may have the deliveries
  if call('EXISTS', tag, MARKS, TOKENS, EXPIRING, JOBS, UNOPENED) > 0 then
    if call('EXISTS', tag, MARKS) > 0 then return nil end
    if now < (tonumber(call('HGET', JOBS, 'sent') or 0) or 0) + 86400000 then return nil end
    elsewhere = true
  end
  local successes = { unpack(ARGV, at) }
  local n = #successes
  if n ~= #lane_classes then return nil end
  local key, texts = LEASES .. by, read_fields(PROGRESS, successes)
  local leased_at = n > 1 and call('ZMSCORE', key, unpack(successes))
  for k = 1, n do
    if texts[k] or n > 1 and not leased_at[k] then return nil end
  end

  -- Successes behind each other of one lane are a run: its lane, and its last one.
  local lanes_of_runs, last_of, runs, prefix = {}, {}, 0, nil
  for k = 1, n do
    local delivery = successes[k]
    if not prefix or find(delivery, prefix, 1, true) ~= 1 then
      runs = runs + 1
      lanes_of_runs[runs] = lane_of(delivery)
      prefix = lanes_of_runs[runs] .. ':'
    end
    last_of[runs] = k
  end
  local list, by_name = usual_lanes(lanes_of_runs)
  if not list then return nil end
  local before = 0
  for r = 1, runs do
    local l, last = by_name[lanes_of_runs[r]], last_of[r]
    l.flying = l.flying - last + before
    if not l.pull then
      local slow, window = sub(lane_classes, last, last) + 0, math.min(l.window + last - before, l.top)
      if slow ~= l.slow or window ~= l.window then l.slow, l.window, l.learned = slow, window, true end
    end
    if not usual_ready(l) then return nil end
    before = last
  end
  local parked_was, lightest_was, due_was = earliest(PARKED), lightest(), earliest(DUE)

  -- All is known, but for a single delivery whether it is leased: to remove its lease shows that. From here on settle_quick writes.
  if n == 1 and call('ZREM', key, successes[1]) == 0 then return nil end
  first_write(false, true)
  if n > 1 then call('ZREM', key, unpack(successes)) end
  local codes_now = string.rep('1', n)
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
  if elsewhere then
    in_chunks('HDEL', TOKENS, successes)
    in_chunks('ZREM', EXPIRING, successes)
    in_chunks('ZREM', UNOPENED, successes)
  end
  in_chunks('ZADD', DONE, done)
  local t, d, w = finish_usual(list, { in_flight = -n, delivered = n }, due_was, parked_was, lightest_was, due_was)
  return { t, d, w, {}, codes_now, {} }
end
local quickly = settle_quick()
if quickly then return quickly end
