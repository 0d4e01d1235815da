-- state: the bookkeeping that every script shares: the lanes it reads, the counts, and its end. It is put behind
-- common. It takes no arguments of its own: ARGV[3..] is the script's.
--
-- The state of the lanes that a script reads. ready is the length of the lane's list, nil before it was read. place is
-- set where a list got its first element or a limit changed. emptied is set where a list lost its last element. Only
-- these, or a change of its deliveries in flight, place a lane anew. So a lane that is published to all the time keeps
-- its turn.
local lanes, loaded, parsed_lanes = {}, {}, {}
local all_paused -- nil before it was read; loaded.epoch is the partition's epoch then

local FRESH = { slow = UNKNOWN, rest = '0 0 0 0 0', more = ' 0 0', fails = 0, opened = 0, till = 0, tat = 0, keys = 0, failing = 0, egress = 0, wait = 0 }
-- DEFAULTS are the limits of lanes that :limits has no text of. A bare URL's has none. A queue's is taken from. An
-- endpoint's lost them: the instance that notices writes them again.
local DEFAULTS = {
  none = { v = 0, top = max_window, interval = 0, ordered = false, held = '-' },
  taken = { v = 0, top = max_window, interval = 0, ordered = false, held = '-', pull = true },
  lost = { v = 0, top = max_window, interval = 0, ordered = false, held = '?' },
}

-- parse_lane reads a text of :lane. A malformed text counts as a new lane, and stops no other.
local function parse_lane(text)
  local s = parsed_lanes[text]
  if not s then
    local w, f, o, u, t, k, c, more, since = match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)( (%d+) %d+.*)$')
    s = FRESH
    if more then
      local away, wait
      if find(more, 'e', 1, true) then away, wait = match(more, ' e(%d+)-(%d+)$') end
      s = {
        window = tonumber(w), slow = tonumber(c), rest = f .. ' ' .. o .. ' ' .. u .. ' ' .. t .. ' ' .. k, more = more,
        fails = tonumber(f), opened = tonumber(o), till = tonumber(u), tat = tonumber(t), keys = tonumber(k), failing = tonumber(since),
        egress = tonumber(away) or 0, wait = tonumber(wait) or 0,
      }
      if s.window < 1 or s.slow > WORST or math.max(s.window, s.fails, s.opened, s.till, s.tat, s.keys, s.failing, s.egress, s.wait) >= SANE then s = FRESH end
    end
    parsed_lanes[text] = s
  end
  return s
end

-- parse_limits reads a text of :limits. It answers nil for a malformed one. The version of a cut is its ms: what was
-- accepted by then ends, and nothing is held.
local function parse_limits(text)
  local v, top, interval, ordered, held, pull = match(text, '^(%d+) (%d+) (%d+) ([01]) ([-pdxg])( ?t?)$')
  if not v then return nil end
  v, top, interval = tonumber(v), tonumber(top), tonumber(interval)
  if math.max(v, top, interval) >= SANE then return nil end
  if held == 'g' then return { v = 0, top = max_window, interval = 0, ordered = false, held = '-', cut = v } end
  return { v = v, top = top > 0 and top or max_window, interval = interval, ordered = ordered == '1', held = held, pull = pull == ' t' }
end
local function limits_of(name, text)
  if sub(name, 1, 2) == 'q_' then
    local limits = text and parse_limits(text) or DEFAULTS.taken
    limits.pull = true
    return limits
  end
  return text and parse_limits(text) or sub(name, 1, 3) == 'ep_' and DEFAULTS.lost or DEFAULTS.none
end
local function pauses_all(text)
  local l = text and parse_limits(text)
  return l and l.held ~= '-' or false
end

-- writable is a lane's state, ready to change. Until then lanes with equal texts share the parsed one.
local function writable(l)
  if not l.own then
    local s = l.state
    l.state = {
      fails = s.fails, opened = s.opened, till = s.till, tat = s.tat, keys = s.keys, failing = s.failing, more = s.more,
      egress = s.egress, wait = s.wait,
    }
    l.own = true
  end
  return l.state
end

-- set_failing notes since when a lane fails (0: it does not), whether somebody was told of that, and its last attempt.
local function set_failing(l, since, told, last)
  local s = writable(l)
  local beyond = string.gsub(match(s.more, '^ %d+ %d+(.*)$') or '', '^ %d+', '')
  s.failing, s.more = since, ' ' .. num(since) .. ' ' .. told .. ' ' .. last .. beyond
end

-- correct_clock corrects a time that is further ahead than an attempt can set it. Another clock set it, which went back
-- since or gave way to a node whose clock is behind. It counts as now. A turn is of 8 at most, so 9 intervals and the
-- burst are more than any attempt sets. A receiver may ask for a day. A second is allowed for the difference of clocks
-- at a takeover, and a minute for a wait of a day.
local function correct_clock(l)
  local s, interval = l.state, l.limits.interval
  if interval > 0 and s.tat > micros + 9 * interval + BURST + 1000000 then
    writable(l).tat, l.place = micros, true
  end
  if s.till > now + 86460000 then
    writable(l).till, l.place = now, true
  end
end

local function read_lanes(names)
  local ins, texts = call('HMGET', IN, unpack(names)), call('HMGET', LANE, unpack(names))
  names[#names + 1], names[#names + 2] = '*', '~epoch'
  local limits = call('HMGET', LIMITS, unpack(names))
  all_paused, loaded.epoch = pauses_all(limits[#names - 1]), limits[#names]
  names[#names], names[#names - 1] = nil, nil
  for i, name in ipairs(names) do
    local inside, text, flying, waiting = ins[i], texts[i], 0, 0
    if inside and inside ~= '0 0' then
      local a, b = match(inside, '^(%d+) (%d+)$')
      -- A malformed text must not stop its lane; doctor counts again.
      if a and #inside < 20 then flying, waiting = tonumber(a), tonumber(b) end
    end
    local s, limit = text and (parsed_lanes[text] or parse_lane(text)) or FRESH, limits_of(name, limits[i])
    local l = {
      name = name, flying = flying, waiting = waiting, was = inside, text = text,
      window = s.window or math.min(FIRST_WINDOW, limit.top), slow = s.slow, state = s, limits = limit,
      own = false, had = flying, ready = nil, emptied = false, place = false,
    }
    lanes[name] = l
    loaded[#loaded + 1] = l
    correct_clock(l)
  end
end

local function load_lanes(names)
  local new = {}
  for _, name in ipairs(names) do
    if not lanes[name] then
      lanes[name] = true
      new[#new + 1] = name
    end
  end
  if #new <= 1000 then
    if #new > 0 then read_lanes(new) end
    return
  end
  for i = 1, #new, 1000 do read_lanes({ unpack(new, i, math.min(i + 999, #new)) }) end
end

local function ready_length(l)
  if not l.ready then
    l.ready = l.waiting > 0 and sure('LLEN', READY .. l.name) or 0
  end
  return l.ready
end

-- sets_of lists the sets in which a delivery may be: that of its lane, and that of its own key.
local function sets_of(l, record)
  local sets = { BEHIND .. l.name .. ':*' }
  local key = record and #record > DIGEST and key_of(record) or NO_KEY
  if key ~= NO_KEY then sets[2] = BEHIND .. l.name .. ':' .. hex(key) end
  return sets
end

-- slots is how many deliveries a lane may have in flight. It is one, the probe, while the lane's breaker is open, and
-- while the lane waits for our own network. A lane that is taken from grows no window, since its takers say how many.
local function slots(l)
  if l.limits.ordered then return 1 end
  if l.limits.pull then return l.limits.top end
  if l.state.opened > 0 or l.state.egress > 0 then return 1 end
  return math.min(l.window, l.limits.top)
end

-- counted_from is the time in us from which a lane's tokens count.
local function counted_from(tat)
  return tat < micros - IDLE and micros or math.max(tat, micros - BURST)
end

-- tokens_of is how many attempts a lane's rate allows now.
local function tokens_of(l)
  local interval, tat = l.limits.interval, l.state.tat
  if interval == 0 then return math.huge end
  if tat > micros then return 0 end
  return floor((micros - counted_from(tat)) / interval) + 1
end
local function take_tokens(l, n)
  local s = writable(l)
  s.tat = counted_from(s.tat) + n * l.limits.interval
end
local function return_token(l)
  if l.limits.interval == 0 then return end
  local s = writable(l)
  s.tat = math.max(0, s.tat - l.limits.interval)
end

-- allowed_from is the ms from which on a lane's state allows an attempt.
local function allowed_from(l)
  local s = l.state
  if l.limits.interval == 0 then return s.till end
  return math.max(s.till, math.ceil(s.tat / 1000))
end

-- lane_ends reports whether all deliveries of a lane end, since its endpoint is disabled or deleted.
local function lane_ends(l) return l.limits.held == 'd' or l.limits.held == 'x' end

-- burden is the number of a lane's deliveries in flight, plus its class for each so many permits. So lanes that hang
-- leave 64 of 1,024 permits to better ones. That is as many as can begin to hang at once without taking the last. With
-- few permits the classes count less. Otherwise lanes of quick answers would hold all of them for ever.
local function burden(l) return math.max(0, l.flying) + floor(l.slow * all_permits / CLASS_PERMITS) end

-- weight is a lane's burden as a part of all instances' permits. It is the same for every caller, since it orders the
-- lanes from which all of them claim.
local function weight(l) return math.min(MOST_WEIGHT, floor(WHOLE * burden(l) / all_permits)) end

-- light_enough reports whether a lane may get a permit of an instance with free ones. It may while it weighs less than the
-- free part of the instance's own permits. The classes keep the last permits for better lanes. An instance that holds
-- nothing may claim from any lane. The last free permit of very many weighs one.
local function light_enough(l, free)
  if free <= 0 then return false end
  return free == permits or weight(l) < math.max(1, floor(WHOLE * free / permits))
end

-- The sums that finish writes. They are in one table, since a script may have few locals. counts, buried and ends are
-- added to their hashes. log has the lines for :attempts, and died what finish tells the caller. takeable are lanes
-- that came to :pulls, of which finish tells those who wait for them. watched are deliveries that expire (expiry.lua).
local sums = { counts = {}, buried = {}, ends = {}, log = {}, died = {}, takeable = {}, watched = {} }
local function add_to(list, field, n) list[field] = (list[field] or 0) + n end
local function count(status, n) add_to(sums.counts, status, n) end
local function count_dead(lane, reason, n)
  add_to(sums.buried, lane .. ' ' .. reason, n)
end
local function log_line(delivery, verdict, status, took, number, reason)
  local log = sums.log
  log[#log + 1] = delivery .. ' ' .. verdict .. ' ' .. status .. ' ' .. took .. ' ' .. number .. ' ' .. reason
end

-- parse_progress parses a text of :progress: attempts, base, deaths, status, asked, reason. It answers the text of the fields
-- after them too, which scripts keep as it is, and the first of these, beside.
local NO_MORE_PROGRESS = ' 0 0' -- beside, job
local MOST_PROGRESS, MOST_ATTEMPTS = 256, 2147483647 -- bytes and attempts; a text with more was not written by us
local function parse_progress(text)
  if not text then return 0, 0, 0, 0, 0, '-', NO_MORE_PROGRESS, 0 end
  local a, b, d, s, q, r, more, e = match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+)( (%d+) %d+.*)$')
  if not a or #text > MOST_PROGRESS then return 0, 0, 0, 0, 0, '-', NO_MORE_PROGRESS, 0 end
  a, b, d, s, q, e = tonumber(a), tonumber(b), tonumber(d), tonumber(s), tonumber(q), tonumber(e)
  if b + e > a or math.max(a, d, s) > MOST_ATTEMPTS or q >= SANE then return 0, 0, 0, 0, 0, '-', NO_MORE_PROGRESS, 0 end
  return a, b, d, s, q, r, more, e
end
local function progress_text(a, b, d, s, q, r, more) return format('%d %d %d %d %.0f %s%s', a, b, d, s, q, r, more) end
local function with_beside(more, n) return (string.gsub(more, '^ %d+', ' ' .. n)) end
local function waiting_status(text)
  local attempts, base, _, _, _, _, _, beside = parse_progress(text)
  return attempts - beside > base and 'retrying' or 'scheduled'
end

-- add_counts changes counts. A field that is no number begins again; doctor compares it.
local function add_counts(hash, deltas)
  for field, n in pairs(deltas) do
    if n ~= 0 then
      local sum = redis.pcall('HINCRBY', hash, field, n)
      if type(sum) == 'table' then
        sure('HDEL', hash, field)
        sum = call('HINCRBY', hash, field, n)
      end
      if sum == 0 then call('HDEL', hash, field) end
    end
  end
end

-- The earliest time of a zset by time, 0 for none, and the weight of the lightest lane, -1 for none.
local function earliest(key)
  local head = call('ZRANGE', key, '0', '0', 'WITHSCORES')
  local at = head[2] and tonumber(head[2])
  if not at or at >= SANE then return 0 end
  return at < 1 and 1 or at -- a score below every time is due
end
local function lightest()
  local head = call('ZRANGE', LANES, '0', '0', 'WITHSCORES')
  if not head[2] then return -1 end
  local score = tonumber(head[2]) or SANE
  return floor(math.max(0, math.min(score, MOST_WEIGHT * TURN)) / TURN)
end
local function sooner(a, b)
  if a == 0 or b == 0 then return a + b end
  return math.min(a, b)
end

local before_parked, before_weight = earliest(PARKED), lightest()
local before_due = sooner(earliest(DUE), before_parked)

-- hint_weight is the weight that a hint tells. It is -1 while all lanes are held.
local function hint_weight(w)
  if w < 0 then return w end
  if all_paused == nil then all_paused = pauses_all(call('HGET', LIMITS, '*')) end
  return all_paused and -1 or w
end

-- place_lanes puts each lane that changed where it belongs. A lane that may be claimed from goes to :lanes, or to
-- :parked if it has to wait. A lane whose ready list has to be ended goes to :parked, so that the mover of any instance
-- ends it. Other lanes are in neither. For lanes that are taken from :pulls stands in place of :lanes. It answers
-- whether :parked may have changed.
local function place_lanes()
  local claimable, parked, unlisted, unparked, untaken = {}, {}, {}, {}, {}
  for _, l in ipairs(loaded) do
    if l.place or l.emptied or l.flying ~= l.had then
      local n, name, pull = ready_length(l), l.name, l.limits.pull
      local at -- ms from which on it may be claimed from; nil: never
      if n > 0 then
        if lane_ends(l) then
          at = now
        elseif l.limits.held == '-' and l.flying < slots(l) then
          at = allowed_from(l)
        end
      end
      if at and (at > now or lane_ends(l)) then
        parked[#parked + 1] = num(at)
        parked[#parked + 1] = name
        if pull then untaken[#untaken + 1] = name else unlisted[#unlisted + 1] = name end
      elseif at and pull then
        if sure('ZADD', PULLS, 'NX', at_now, name) == 1 then sums.takeable[#sums.takeable + 1] = name end
        unparked[#unparked + 1] = name
      elseif at then
        claimable[#claimable + 1] = format('%d', weight(l) * TURN + now)
        claimable[#claimable + 1] = name
        unparked[#unparked + 1] = name
      elseif n > 0 or l.emptied or l.place then
        if pull then untaken[#untaken + 1] = name else unlisted[#unlisted + 1] = name end
        unparked[#unparked + 1] = name
      end
      if l.stray then unlisted[#unlisted + 1] = name end
    end
  end
  in_chunks('ZREM', LANES, unlisted)
  in_chunks('ZREM', PULLS, untaken)
  if before_parked > 0 then in_chunks('ZREM', PARKED, unparked) end
  in_chunks('ZADD', LANES, claimable)
  in_chunks('ZADD', PARKED, parked)
  return #parked > 0 or (before_parked > 0 and #unparked > 0)
end

-- force_table makes Redis keep a hash of lanes as a table, in which a field is found at once. Redis keeps up to 512 short
-- texts as a list, which each look-up walks; most stores have no more. One long text makes the hash a table as long as
-- it is in memory. The hash must have a field already, or it would go with the long one.
local LONG_FIELD = string.rep(' ', 65)
local function force_table(hash)
  call('HSET', hash, ' ', LONG_FIELD)
  call('HDEL', hash, ' ')
end

-- write_leases writes leases of the caller: times and deliveries. Redis keeps up to 128 of them as a list too, as many as one
-- lane may have in flight. An instance that works for one lane walks that list three times for each delivery. So it is
-- made a table, but not for a few leases.
local MANY_LEASES = 8
local function write_leases(leases)
  local key = LEASES .. by
  if #leases < 2 * MANY_LEASES then return in_chunks('ZADD', key, leases) end
  sure('ZADD', key, '0', LONG_FIELD)
  in_chunks('ZADD', key, leases)
  call('ZREM', key, LONG_FIELD)
end

-- write_lanes writes the states that changed.
local function write_lanes()
  local ins, texts, made, names, fresh = {}, {}, {}, {}, false
  for _, l in ipairs(loaded) do
    -- A count that was wrong may be below zero here.
    local flying, waiting = l.flying, l.waiting
    local inside = format('%d %d', flying > 0 and flying or 0, waiting > 0 and waiting or 0)
    local used = inside ~= (l.was or '0 0') -- a lane that was only read gets no state
    if sums.bare and sums.bare[l.name] and inside == '0 0' then
      sure('HDEL', IN, l.name)
    elseif used then
      ins[#ins + 1] = l.name
      ins[#ins + 1] = inside
      fresh = fresh or not l.was
    end
    if used or l.own then
      local s = l.state
      local rest = l.own and format('%d %d %d %d %d', s.fails, s.opened, s.till, s.tat, s.keys) or s.rest
      local text = format('%d %s %d%s', l.window, rest, l.slow, l.state.more)
      if text ~= l.text then
        texts[#texts + 1] = l.name
        texts[#texts + 1] = text
        if not l.text then
          made[#made + 1] = at_now
          made[#made + 1] = l.name
          if l.leads then
            names[#names + 1] = l.name
            names[#names + 1] = l.leads
          end
        end
      end
    end
  end
  in_chunks('HSET', IN, ins)
  in_chunks('HSET', LANE, texts)
  in_chunks('ZADD', KNOWN, made)
  in_chunks('HSET', NAMES, names)
  if fresh then force_table(IN) end
  if #made > 0 then force_table(LANE) end
end

-- write_log adds an entry to :attempts, which trim cuts. It begins the stream anew if the last entry has the highest
-- number there is. If the id is the present ms and the first of that, no clock was ahead of this one: ids never go back.
local function write_log(...)
  local id = redis.pcall('XADD', ATTEMPTS, '*', ...)
  if sums.newest == nil then sums.newest = id == at_now .. '-0' end
  if type(id) == 'table' and id.err then
    call('DEL', ATTEMPTS)
    call('XADD', ATTEMPTS, '*', ...)
    sure('HSET', tag .. ':archive', 'cut', at_now .. '-0') -- a local for this name would be one too many for claim
  end
end

-- finish ends a script. It writes the changed lanes and counts. If there is work earlier than the other instances know,
-- it tells them. It answers the caller's own hint: now (in microseconds, so that answers have an order), due, weight.
-- If deliveries died, the weight is a text with a line for each: attempts, reason, delivery. So this costs nothing when
-- none did.
local function finish()
  local moved = place_lanes()
  write_lanes()
  add_counts(COUNTS, sums.counts)
  add_counts(BURIED, sums.buried)
  add_counts(ENDS, sums.ends)
  if sums.readied then sure('HSET', LIMITS, '~readied', num(now)) end
  for k = 1, #sums.log, 64 do -- lines of an entry: readers read whole entries
    write_log('l', table.concat(sums.log, '\n', k, math.min(k + 63, #sums.log)))
  end

  local due = sooner(earliest(DUE), (moved or sums.parked) and earliest(PARKED) or before_parked)
  local w = hint_weight(lightest())
  local earlier = due > 0 and (before_due == 0 or due < before_due)
  local lighter = w >= 0 and (before_weight < 0 or w < before_weight)
  if silent == '0' and (earlier or lighter or #sums.takeable > 0) then
    local hints = {}
    if earlier or lighter then hints[1] = num(due) .. ' ' .. w .. ' ' .. by end
    if #sums.takeable > 0 then hints[#hints + 1] = 'q ' .. table.concat(sums.takeable, ' ') end
    local project, n = string.match(tag, '^{(.+):(%d+)}$')
    local id = string.match(ARGV[2], '%x+$') -- read here, since a local of its own would cost each function an upvalue
    for _, hint in ipairs(hints) do
      call('PUBLISH', '{' .. project .. '}:wake', id .. ' ' .. n .. ' ' .. num(micros) .. ' ' .. hint)
    end
  end
  if #sums.died > 0 then w = w .. '\n' .. table.concat(sums.died, '\n') end
  return micros, due, w
end
