-- restore_put: put deliveries back that were not finished when the store was lost, or that had died. Existing ones stay. A
-- delivery joins the end of its line, so they come in the order of their lines.
-- needs: common(body_apart, body_of, find, first_write, in_chunks, lanes_of, match, now, num, sub, sure),
--   tenant(origin_and_tenant, put_on_shelves), lane_state(lanes, load_lanes), progress(NO_MORE_PROGRESS, progress_text,
--   waiting_status, with_beside), sums(count, count_dead, log_line, sums), finish(finish), named(write_named),
--   ends(end_with_lane, ends_with_lane, write_ends), order(join_line, line_of, push_ready), expiry(set_expiry,
--   watch_expiry)
--
-- ARGV[3..] for each: lane, id, record (without a body that lies apart: it was staged), due in ms (0: now), attempts, base,
--           beside, asked in ms (0: no request), status, reason (-: it did not die), ms when it died, its history: of each
--           entry, newest first, the length, a space, and the entry
-- returns now, due, weight, a digit for each: 1 put back, 2 there already or its message ended here, 3 another message has its
--   id, 4 its body is not there
local WIDTH = 12
local names, records = {}, {}
for i = 3, #ARGV, WIDTH do names[#names + 1] = ARGV[i] end
load_lanes(names)

-- named_so_far lists the lanes of a message that is there, as :fan has them. It returns nil if nothing may be put back.
-- An id from an archive has unknown lanes that are gone.
local function named_so_far(id, old, lane)
  if not old then return {} end
  if #old <= DIGEST then
    local since = sure('ZSCORE', SEEN, id)
    return since and find(since, '.5', 1, true) and { '-*' } or nil
  end
  local list = lanes_of(id, old)
  for _, name in ipairs(list) do
    if string.gsub(name, '^%-', '') == lane then return nil end
  end
  return list
end

-- has_body makes a staged body the message's. It reports whether the body is there.
local function has_body(id, record)
  if not body_apart(record) then return true end
  sure('ZREM', STAGED, body_of(id, record))
  return sure('HEXISTS', BODIES, body_of(id, record)) == 1
end

-- remember_again writes the history of a delivery.
local function remember_again(delivery, packed)
  local entries, at = {}, 1
  while at <= #packed do
    local length, from = match(packed, '^(%d+) ()', at)
    if not length then break end
    entries[#entries + 1] = sub(packed, from, from + length - 1)
    at = from + length
  end
  sure('DEL', HISTORY .. delivery)
  in_chunks('RPUSH', HISTORY .. delivery, entries)
  return entries[1]
end

-- attempted_at returns the ms of an attempt in a history, 0 for none.
local function attempted_at(entry) return tonumber(match(entry or '', '"t":(%d+)') or 0) end

-- note_failure notes the message whose attempt failed last in a lane. The deliveries come in the order of their lines.
local function note_failure(l, id, newest)
  local at, before = attempted_at(newest), not l.failed and sure('HGET', FAILURES, l.name)
  l.failed = l.failed or before and attempted_at(sure('LINDEX', HISTORY .. l.name .. ':' .. before, 0)) or 0
  if at <= l.failed then return end
  l.failed = at
  sure('HSET', FAILURES, l.name, id)
end

-- bury_again puts a delivery that died into the dead list.
local function bury_again(l, delivery, reason, at)
  sure('ZADD', DEAD, at, delivery)
  count('dead', 1)
  count_dead(l.name, reason, 1)
end

-- place_again puts a delivery where it waits.
local function place_again(l, delivery, id, record, due, text)
  local key = line_of(l, record)
  if ends_with_lane(l, id, record) then return end_with_lane(l, delivery, text or nil) end
  watch_expiry(delivery, record)
  if key and not join_line(l, key, id) then
    l.waiting = l.waiting + 1
    count('scheduled', 1)
  elseif due > now then
    sure('ZADD', DUE, num(due), delivery)
    l.waiting = l.waiting + 1
    count(waiting_status(text or nil), 1)
  else
    push_ready(l, due > 0 and due or now, id)
  end
end

local function put_back(i)
  local lane, id, record = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local l, delivery, old = lanes[lane], lane .. ':' .. id, records[id] or sure('HGET', MESSAGES, id)
  if old and sub(old, 1, DIGEST) ~= sub(record, 1, DIGEST) then return '3' end
  local list = named_so_far(id, old, lane)
  if not list then
    if old and #old > DIGEST then has_body(id, old) end -- it is the message's already
    return '2'
  end
  if old and #old > DIGEST then record = old end
  if not has_body(id, record) then return '4' end
  list[#list + 1] = lane
  write_named(id, record, list)
  records[id] = sure('HGET', MESSAGES, id)
  put_on_shelves(lane, id, record)
  if not l.text and not l.leads then l.leads = origin_and_tenant(record) end
  local due, attempts, base, beside = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6])
  local asked, status, reason, text = tonumber(ARGV[i + 7]), tonumber(ARGV[i + 8]), ARGV[i + 9], false
  if attempts > 0 or asked > 0 or reason ~= '-' then
    text = progress_text(attempts, base, 0, status, asked, reason, with_beside(NO_MORE_PROGRESS, beside))
    sure('HSET', PROGRESS, delivery, text)
    note_failure(l, id, remember_again(delivery, ARGV[i + 11]))
  end
  if reason ~= '-' then
    bury_again(l, delivery, reason, ARGV[i + 10])
  else
    log_line(delivery, 'restored', 0, 0, attempts, '-')
    place_again(l, delivery, id, record, due, text)
  end
  return '1'
end

first_write()
local codes = {}
for i = 3, #ARGV, WIDTH do
  codes[#codes + 1] = put_back(i)
  write_ends()
end
if #sums.watched > 0 then set_expiry() end
local t, d, w = finish()
return { t, d, w, table.concat(codes) }
