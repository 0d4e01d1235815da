-- trim: forget work that is too old or too much, a batch at a time.
-- needs: common(add_counts, at_now, body_apart, body_of, call, created_at, find, first_write, floor, in_chunks, match,
--   now, num, split, sub, sure), leases(force_table), limits(limits_of), lane_state(lanes, load_lanes),
--   slots(allowed_from, lane_ends), progress(parse_progress), sums(count, count_dead, sums), finish(finish),
--   position(is_later, ms_and_seq, next_id), cut(forget_deliveries, has_bodies, has_more, limit_by_fans), taken(TIMER,
--   set_timer), expiry(set_expiry)
--
-- ARGV[3] finished ms   age at which delivered and cancelled ones, and ids, are forgotten
-- ARGV[4] finished most deliveries kept whole
-- ARGV[5] seen most     ids kept of messages that were cut before their age
-- ARGV[6] dead ms, ARGV[7] dead most
-- ARGV[8] batch         most of each kind
-- ARGV[9] room          1: make space: the oldest finished work goes, but none whose message is younger than 15 s, and
--                       ids once none goes any more
-- ARGV[10] log bytes    most memory of :attempts
-- ARGV[11] backlog      bytes that are kept longer because they are not archived; 0: there is no archive
-- returns now, due, weight, finished, seen, dead, dead cut before their age, lanes, 1 if there is more, the least age in ms
--   at which a finished one was cut since there were too many (0: none was), endpoints' lanes that were looked at and stay,
--   each with the version of its limits, 1 if a lane was placed anew
local YOUNG = 15 * 1000 -- ms; making room leaves these: callers repeat a call that just failed, and parts of a fan-out come for up to 11 s

local finished_ms, finished_most, seen_most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local dead_ms, dead_most, batch = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local make_room, log_most, backlog = ARGV[9] == '1', tonumber(ARGV[10]), tonumber(ARGV[11])
first_write()

-- Entries and ends that are not archived stay: ends from ends_below on, in ms, and entries behind archived.
local EARLIER = 1000 -- ms; an entry may be older than its end by this, if the clock was set back between them
local ends_below, archived = SANE, nil

-- note_cut notes from where on the log is whole. If the caller does not know of the archive yet, that may be a gap.
local function note_cut(id)
  local ms, known = tonumber(match(id, '^%d+')), sure('HMGET', ARCHIVE, 'cut', 'p')
  local before = match(known[1] or '', '^%d+')
  if not before or tonumber(before) < ms then sure('HSET', ARCHIVE, 'cut', id) end
  if known[2] and not archived and is_later(id, known[2]) then sure('HSET', ARCHIVE, 'gap', id) end
end
local log_entries, log_bytes = sure('XLEN', ATTEMPTS), 0 -- the memory that they take; 0: they are too few to ask
-- read_archived reads how far the log is archived, and gives up the oldest entries if there are too many.
local function read_archived()
  local LOG_ENTRY = 49152 -- bytes that no entry has
  local GIVEN_UP = 32 -- entries that one call reads to give them up: some 500 KiB

  local function log_size()
    local bytes = redis.pcall('MEMORY', 'USAGE', ATTEMPTS, 'SAMPLES', '4')
    if type(bytes) == 'number' then return bytes end
    -- Some services forbid this command. Then the newest entries give an estimate.
    local newest, sum = sure('XREVRANGE', ATTEMPTS, '+', '-', 'COUNT', 4), 0
    for _, entry in ipairs(newest) do
      for _, value in ipairs(entry[2]) do sum = sum + #value end
    end
    return sum / math.max(#newest, 1) * log_entries
  end
  if log_entries * LOG_ENTRY > log_most then log_bytes = log_size() end

  -- give_up removes the oldest entries that are not archived. It returns the first id behind them, nil if there are none.
  local function give_up(from_id)
    local ids, lines, bytes = {}, 0, 0
    for i, entry in ipairs(sure('XRANGE', ATTEMPTS, '(' .. from_id, '+', 'COUNT', GIVEN_UP)) do
      ids[i] = entry[1]
      for k = 1, #entry[2], 2 do
        local field, value = entry[2][k], entry[2][k + 1]
        if field == 'l' or field == 'a' or field == 'k' then lines = lines + select(2, string.gsub(value, '\n', '')) + 1 end
        if field == 'b' then bytes = bytes + (tonumber(value) or 0) end
      end
    end
    if #ids == 0 then return nil end
    local first = next_id(ids[#ids])
    sure('XDEL', ATTEMPTS, unpack(ids))
    sure('HSET', ARCHIVE, 'gap', first)
    note_cut(first)
    add_counts(ARCHIVE, { dropped = lines, b = -bytes })
    log_entries, has_more = log_entries - #ids, 1
    return first
  end

  -- hinders reports whether only ends that are not archived keep a call from making room.
  local function hinders(below)
    local hindered = false
    for _, key in ipairs({ DONE, CANCELLED }) do
      local head = tonumber(sure('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or nil)
      if head and head < below then return false end
      hindered = hindered or head and head <= now - YOUNG
    end
    return hindered
  end

  local kept = backlog > 0 and sure('HMGET', ARCHIVE, 'p', 'b', 'gap') or NONE
  local p, waiting_bytes, gap = kept[1], tonumber(kept[2] or nil) or 0, kept[3]
  if ms_and_seq(p) then
    local known = gap and is_later(gap, p) and gap or p
    local over = waiting_bytes + math.max(0, log_bytes - log_most) > backlog
    if over or make_room and hinders(ms_and_seq(known) - EARLIER) then known = give_up(known) or known end
    archived = p
    local newest = sure('XREVRANGE', ATTEMPTS, '+', '-', 'COUNT', 1)[1]
    if newest and is_later(newest[1], known) then ends_below = math.max(0, ms_and_seq(known) - EARLIER) end -- else all is
  end
end
read_archived()

local function full(list)
  if #list >= batch then has_more = 1 end
  return #list
end

-- aged returns the archived deliveries of an end zset that are older than age.
local function aged(key, age)
  local last = now - age >= ends_below and '(' .. num(ends_below) or now - age
  return sure('ZRANGEBYSCORE', key, '-inf', last, 'LIMIT', 0, batch)
end

-- over are the oldest n of an end zset, as far as they are archived.
local function over(key, n)
  if n > 0 and archived then
    return sure('ZRANGEBYSCORE', key, '-inf', '(' .. num(ends_below), 'LIMIT', 0, math.min(n, batch))
  end
  return n > 0 and sure('ZRANGE', key, 0, math.min(n, batch) - 1) or {}
end

-- lose forgets deliveries of an end zset, the oldest first. Lists by the end are whole behind the newest of them.
local lost = { ended = 0, dead = 0 }
local function lose(field, key, deliveries, digest)
  if #deliveries > 0 then
    local newest = tonumber(sure('ZSCORE', key, deliveries[#deliveries])) or 0
    lost[field] = math.max(lost[field], math.min(newest, now))
  end
  forget_deliveries(key, deliveries, digest)
end

local nfinished = 0
for _, end_ in ipairs({ { DONE, 'delivered' }, { CANCELLED, 'cancelled' } }) do
  local old = limit_by_fans(aged(end_[1], finished_ms))
  lose('ended', end_[1], old, false)
  count(end_[2], -#old)
  nfinished = nfinished + full(old)
end

-- Too many, or room is wanted: from the one that has the older head.
local function age_of_head(key)
  local head = sure('ZRANGE', key, 0, 0, 'WITHSCORES')
  return head[2] and tonumber(head[2]) or math.huge
end

-- without_young leaves out the deliveries of an end zset whose message is young. A delivery that ended that long ago has no young
-- message.
local function without_young(key, deliveries)
  local ids, old = {}, {}
  for i, delivery in ipairs(deliveries) do ids[i] = select(2, split(delivery)) end
  local records = #ids > 0 and sure('HMGET', MESSAGES, unpack(ids)) or NONE
  for i, delivery in ipairs(deliveries) do
    local record = records[i]
    if not record or created_at(record) <= now - YOUNG or tonumber(sure('ZSCORE', key, delivery)) <= now - YOUNG then
      old[#old + 1] = delivery
    end
  end
  return old
end

local much = sure('ZCARD', DONE) + sure('ZCARD', CANCELLED) - finished_most
local cut_age, many = 0, much
if make_room then much = math.max(much, batch) end
local function cut_oldest(key, status)
  local cut = limit_by_fans(over(key, much))
  if make_room then cut = without_young(key, cut) end
  if many > 0 and #cut > 0 then
    -- A trim for room may cut more than are too many. The newest of the superfluous ones shows how short the time
    -- is.
    local newest = cut[math.min(many, #cut)]
    cut_age = math.max(1, now - tonumber(sure('ZSCORE', key, newest)))
  end
  lose('ended', key, cut, true)
  count(status, -#cut)
  nfinished = nfinished + #cut
  if #cut < much and #cut > 0 then has_more = 1 end
  return #cut
end
if much > 0 then
  local first, other = { DONE, 'delivered' }, { CANCELLED, 'cancelled' }
  if age_of_head(CANCELLED) < age_of_head(DONE) then first, other = other, first end
  if cut_oldest(unpack(first)) == 0 and make_room then cut_oldest(unpack(other)) end
end

local seen = sure('ZRANGEBYSCORE', SEEN, '-inf', now - finished_ms, 'LIMIT', 0, batch)
local spare = sure('ZCARD', SEEN) - #seen - seen_most
if #seen < batch then
  local extra = math.min(batch - #seen, spare)
  if extra > 0 then
    seen = sure('ZRANGE', SEEN, 0, #seen + extra - 1)
  elseif make_room and nfinished == 0 then
    seen = sure('ZRANGEBYSCORE', SEEN, '-inf', now - YOUNG, 'LIMIT', 0, batch)
  end
end
in_chunks('ZREM', SEEN, seen)
in_chunks('HDEL', MESSAGES, seen)
full(seen)

local old = #aged(DEAD, dead_ms)
local dead = limit_by_fans(over(DEAD, math.max(old, sure('ZCARD', DEAD) - dead_most)))
local early = math.max(0, #dead - old)
if #dead > 0 then
  for i, text in ipairs(sure('HMGET', PROGRESS, unpack(dead))) do
    local _, _, _, _, _, reason = parse_progress(text)
    count_dead((split(dead[i])), reason, -1)
  end
  lose('dead', DEAD, dead, false)
  count('dead', -full(dead))
end

-- Bodies whose message never came. If the message is kept, the body is its own and a repeat has staged it again.
if has_bodies then
  local STAGED_AGE = 3600 * 1000 -- ms; after this time the call that staged a body has given up
  local given_up = sure('ZRANGEBYSCORE', STAGED, '-inf', now - STAGED_AGE, 'LIMIT', 0, batch)
  for _, field in ipairs(given_up) do
    local id = sub(field, 1, -DIGEST - 2)
    local record = sure('HGET', MESSAGES, id)
    if not (record and body_apart(record) and body_of(id, record) == field) then sure('HDEL', BODIES, field) end
    sure('ZREM', STAGED, field)
  end
  full(given_up)
end

-- States of lanes that are not used. The limits of an endpoint's lane stay until the endpoint is deleted.
local nlanes, stay = 0, {}
local function forget_lanes()
  local LANE_AGE = 3600 * 1000 -- ms; a lane's state marks a good destination, so it outlives idle moments
  local heads = sure('ZRANGEBYSCORE', KNOWN, '-inf', now - LANE_AGE, 'LIMIT', 0, batch)
  if #heads > 0 then
    local ins, limits = sure('HMGET', IN, unpack(heads)), sure('HMGET', LIMITS, unpack(heads))
    local idle, gone, kept = {}, {}, {} -- those that have deliveries which ended are kept by their names
    for i, lane in ipairs(heads) do
      local unlimited = not limits[i] or find(limits[i], ' x', 1, true)
      local unused = unlimited and (not ins[i] or ins[i] == '0 0')
      if unused then idle[#idle + 1] = lane end
      if unused and sure('EXISTS', SHELF .. lane) == 0 then
        gone[#gone + 1] = lane
      else
        kept[#kept + 1] = now
        kept[#kept + 1] = lane
        if not unused and sub(lane, 1, 3) == 'ep_' then
          stay[#stay + 1], stay[#stay + 2] = lane, limits_of(lane, limits[i]).v
        end
      end
    end
    in_chunks('ZREM', KNOWN, gone)
    in_chunks('HDEL', IN, gone)
    in_chunks('HDEL', NAMES, gone)
    in_chunks('HDEL', LANE, idle)
    in_chunks('HDEL', FAILURES, idle)
    in_chunks('HDEL', LIMITS, idle)
    in_chunks('HDEL', HELD, idle)
    in_chunks('ZADD', KNOWN, kept)
    if #kept > 0 then -- Redis may have started anew meanwhile
      for _, hash in ipairs({ IN, LANE }) do
        if call('EXISTS', hash) == 1 then force_table(hash) end
      end
    end
    nlanes = #gone
    full(heads)
  end
end
forget_lanes()

-- Lanes whose time another clock set. No script asks for them before that time, which may never come. Each call reads
-- another part of them, or all if they are no more than a batch.
local function look_ahead()
  local parked, anew = sure('ZCARD', PARKED), 0
  if parked == 0 or sure('ZCOUNT', PARKED, '(' .. at_now, '+inf') == 0 then return 0 end
  local first = parked > batch and now % parked or 0
  local ahead = sure('ZREVRANGE', PARKED, first, first + batch - 1, 'WITHSCORES')
  local names = {}
  for i = 1, #ahead, 2 do
    if ahead[i] ~= TIMER and ahead[i] ~= '~expiring' then names[#names + 1] = ahead[i] end
  end
  load_lanes(names)
  for i = 1, #ahead, 2 do
    local l, at = lanes[ahead[i]], tonumber(ahead[i + 1])
    if l and at > now and at > (lane_ends(l) and now or allowed_from(l)) then l.place = true end
    if l and l.place then anew = 1 end
  end
  return anew
end
local anew = look_ahead()
if set_timer() then anew = 1 end
if set_expiry() then anew = 1 end

-- cut_log cuts :attempts before the oldest delivered one that is kept whole, and if it takes too much memory. It
-- notes how far the entries reach back since.
local LOG_BATCH = 1000 -- entries that one call cuts: 16 MiB at most, a few ms to free
for field, ms in pairs(lost) do
  if ms > (tonumber(sure('HGET', ARCHIVE, field)) or 0) then sure('HSET', ARCHIVE, field, num(ms)) end
end
local function cut_log()
  local entries = log_entries
  if entries == 0 then return end
  local oldest = tonumber(sure('ZRANGE', DONE, 0, 0, 'WITHSCORES')[2] or now - finished_ms) or 0
  local behind = num(math.max(0, math.min(oldest, now) - EARLIER)) .. '-0'
  if archived and is_later(behind, archived) then behind = archived end
  local gone = sure('XTRIM', ATTEMPTS, 'MINID', '~', behind, 'LIMIT', LOG_BATCH)
  if gone > 0 then note_cut(behind) end
  local left = entries - gone
  local most = log_bytes > log_most and floor(entries * log_most / log_bytes) or left
  if make_room then most = math.min(most, floor(left / 2)) end
  if most < left then
    local cut = archived and sure('XTRIM', ATTEMPTS, 'MINID', '~', archived, 'LIMIT', math.min(LOG_BATCH, left - most))
      or sure('XTRIM', ATTEMPTS, 'MAXLEN', '~', most, 'LIMIT', LOG_BATCH)
    local first = cut > 0 and sure('XRANGE', ATTEMPTS, '-', '+', 'COUNT', 1)[1]
    if cut > 0 then note_cut(first and first[1] or at_now .. '-0') end
    gone = gone + cut
  end
  if gone >= LOG_BATCH then has_more = 1 end
end
cut_log()
local t, d, w = finish()
return { t, d, w, nfinished, #seen, #dead, early, nlanes + (sums.left or 0), has_more, num(cut_age), stay, anew }
