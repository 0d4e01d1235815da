-- common: the names, the clock and the bookkeeping that every script shares. It is put before each.
--
-- KEYS[1] tag   {<project>:<n>}; never exists, and every other name is made from it. It is the only declared key: in a
--               slot that is moving, Redis then answers ASK before the script starts, instead of ending it in its middle.
-- ARGV[1] by    the instance that calls
-- ARGV[2] conf  "<largest window> <permits of the calling instance> <failures that open a breaker, 0 none> <its first wait
--               in ms> <most waiting in a lane, 0 any number> <1: nobody is told, since PUBLISH may not be used>"
--
-- Rules: all ARGV is read before the first write, since writes are not rolled back; every script but schedule writes a
-- removal first, since Redis refuses a script at its first write when memory is full; TIME is read once.
--
-- What the keys hold (keys.go has the same names):
--   :messages        hash  message id -> record: digest 16 bytes; created, deliver-at, expires-at 6 bytes each (ms, big
--                          endian, 0 none); key's hash 8; 1 byte length of lane, lane; 2 bytes length of meta, meta; body.
--                          A record of 16 bytes is a digest alone: the id is known, the message is not kept.
--   :fan             hash  message id -> "a b -c": its lanes here, - before each that is gone; only for more than one;
--                          -* for others that are gone, which a repartition could not name
--   :due             zset  <lane>:<id> by due time in ms
--   :ready:<lane>    list  <due>:<id>
--   :behind:<l>:<k>  zset  message ids of all unfinished deliveries of an ordering key by ms, each later than the one
--                          before: the first is also due, ready or leased, the others only here. k: the record's hash of
--                          the key in hex; * in an ordered lane
--   :leases:<inst>   zset  <lane>:<id> by time of claim
--   :marks           hash  <lane>:<id> -> c cancelled, d delivered, though it is still ready or leased
--   :progress        hash  <lane>:<id> -> "attempts base deaths status asked reason"; base: attempts when its ladder
--                          began; asked: 1 if a person asked for the next attempt; reason: - for none
--   :history:<l>:<i> list  newest first "<due of next, 0 none> <length of meta> <meta><excerpt>", at most 32
--   :done :cancelled :dead zset <lane>:<id> by end time
--   :seen            zset  message id by time its record was cut to the digest
--   :lanes           zset  lanes that may be claimed from by weight * 2^41 + ms of last turn
--   :parked          zset  lanes by ms: those that may be claimed from at that time, and those held d or x whose ready
--                          list has to be ended
--   :in              hash  lane -> "in-flight waiting": due, ready and behind
--   :lane            hash  lane -> "window fails opened until tat keys slow": until in ms, tat (when the rate allows the
--                          next) in us, 0 none; keys: how many sets of :behind it has
--   :limits          hash  lane -> "version max interval ordered held": max 0 usual; interval us, 0 no rate; ordered 0 or 1;
--                          held - no, p paused, d disabled, x deleted; * -> all lanes are held. No text: no limits, but
--                          a lane ep_... without is not claimed from
--   :known           zset  lane by when its state was made or last looked at
--   :counts          hash  status -> number; :buried hash "<lane> <reason>" -> dead; no field is 0
--   :fenced          zset  instances declared dead by when
--   :attempts        stream one entry a script, of settle one more where others ended besides; l: what was settled or
--                          ended, a line each, delivery, verdict, status, took ms, number, reason; c (settle): a digit for
--                          each line, what settle answered to it
local tag, by, call, format, floor = KEYS[1], ARGV[1], redis.call, string.format, math.floor

local MESSAGES, FAN, DUE, READY = tag .. ':messages', tag .. ':fan', tag .. ':due', tag .. ':ready:'
local LEASES, MARKS, PROGRESS, HISTORY = tag .. ':leases:', tag .. ':marks', tag .. ':progress', tag .. ':history:'
local DONE, CANCELLED, DEAD, SEEN = tag .. ':done', tag .. ':cancelled', tag .. ':dead', tag .. ':seen'
local LANES, PARKED, IN, LANE = tag .. ':lanes', tag .. ':parked', tag .. ':in', tag .. ':lane'
local LIMITS, KNOWN, BEHIND = tag .. ':limits', tag .. ':known', tag .. ':behind:'
local COUNTS, BURIED, FENCED, ATTEMPTS = tag .. ':counts', tag .. ':buried', tag .. ':fenced', tag .. ':attempts'

local DIGEST = 16     -- bytes of a record that are its digest
local TURN = 2199023255552 -- 2^41: above any ms until 2039, and 4,000 weights of it stay exact in a double
local FIRST_WINDOW, UNKNOWN, WORST = 2, 4, 8 -- a lane's window and class before it was seen; the class of one that hangs
local CLASS_PERMITS, MOST_SCALE = 128, 8 -- a class counts once for so many permits, and no more often than that
local BURST = 50000 -- us; what a rate lets a lane in use make up for, so that a timer that is late loses nothing
local IDLE = 1000000 -- us; a lane that nobody attempted for so long begins with one, not with what it may make up for
local LOG_ENTRIES = 1000 -- of :attempts; one holds what one script settled

local clock = call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = floor(micros / 1000)           -- what is due by now
local from = math.ceil(micros / 1000)      -- what waits is counted from here, so that it is never early
local most, permits, threshold, first_wait, most_waiting, silent =
  string.match(ARGV[2], '^(%d+) (%d+) (%d+) (%d+) (%d+) ([01])$')
most, permits, threshold = tonumber(most), tonumber(permits), tonumber(threshold)
first_wait, most_waiting = tonumber(first_wait), tonumber(most_waiting)

local function num(x) return format('%.0f', tonumber(x)) end

-- each calls command for values of a list, a chunk at a time: unpack has a limit.
local function each(command, key, values)
  for i = 1, #values, 1000 do
    call(command, key, unpack(values, i, math.min(i + 999, #values)))
  end
end

local find, sub = string.find, string.sub
-- A name that is none, written by hand, is a lane without a message: it is dropped where it is met, and stops nothing.
local function lane_of(delivery) return sub(delivery, 1, (find(delivery, ':', 1, true) or #delivery + 1) - 1) end
local function parts(delivery)
  local colon = find(delivery, ':', 1, true) or #delivery + 1
  return sub(delivery, 1, colon - 1), sub(delivery, colon + 1)
end

local function stamp(record, at)
  local a, b, c, d, e, f = string.byte(record, at, at + 5)
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end
local function created(record) return string.sub(record, 17, 22) end
local function deliver(record) return stamp(record, 23) end
local NO_KEY = string.rep('\0', 8)
local function key_of(record) return sub(record, 35, 42) end
local function hex(key) return format('%02x%02x%02x%02x%02x%02x%02x%02x', string.byte(key, 1, 8)) end
local function expires(record) return stamp(record, 29) end
local function only(record) return string.sub(record, 44, 43 + string.byte(record, 43)) end

-- lanes_of lists the lanes of a message here, those that are gone with - before them.
local function lanes_of(id, record)
  local fan = call('HGET', FAN, id)
  if not fan then return { only(record) } end
  local list = {}
  for lane in string.gmatch(fan, '%S+') do list[#list + 1] = lane end
  return list
end

-- exists answers the record of a delivery that is kept whole: its message is, and its lane is named and not gone.
local function exists(lane, id)
  local record = call('HGET', MESSAGES, id)
  if not record or #record <= DIGEST then return false end
  for _, name in ipairs(lanes_of(id, record)) do
    if name == lane then return record end
  end
  return false
end

-- The state of the lanes that a script meets. ready is the length of the lane's list, nil while nobody asked; place is
-- set where a list got its first element or a limit changed, emptied where a list lost its last: only then, or when what
-- it has in flight changed, is a lane placed anew, so that one which is published to all the time keeps its turn.
local lanes, met, shapes = {}, {}, {}
local all_held -- nil while nobody asked

local FRESH = { slow = UNKNOWN, rest = '0 0 0 0 0', fails = 0, opened = 0, till = 0, tat = 0, keys = 0 }
local NO_LIMITS = { v = 0, top = most, interval = 0, ordered = false, held = '-' }
local LOST_LIMITS = { v = 0, top = most, interval = 0, ordered = false, held = '?' } -- who notices writes them again

local function shape(text)
  local s = shapes[text]
  if not s then
    local w, f, o, u, t, k, c = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    s = {
      window = tonumber(w), slow = tonumber(c), rest = f .. ' ' .. o .. ' ' .. u .. ' ' .. t .. ' ' .. k,
      fails = tonumber(f), opened = tonumber(o), till = tonumber(u), tat = tonumber(t), keys = tonumber(k),
    }
    shapes[text] = s
  end
  return s
end

local function limits_of(name, text)
  if not text then
    return sub(name, 1, 3) == 'ep_' and LOST_LIMITS or NO_LIMITS
  end
  local v, top, interval, ordered, held = string.match(text, '^(%d+) (%d+) (%d+) ([01]) ([-pdx])$')
  top = tonumber(top)
  return {
    v = tonumber(v), top = top > 0 and top or most, interval = tonumber(interval), ordered = ordered == '1', held = held,
  }
end

local function read_lanes(names)
  local ins, texts = call('HMGET', IN, unpack(names)), call('HMGET', LANE, unpack(names))
  names[#names + 1] = '*'
  local limits = call('HMGET', LIMITS, unpack(names))
  all_held = limits[#names] and true or false
  names[#names] = nil
  for i, name in ipairs(names) do
    local a, b = '0', '0'
    if ins[i] then a, b = string.match(ins[i], '^(%d+) (%d+)$') end
    if not a then a, b = '0', '0' end -- a text that is none must not stop its lane; doctor counts again
    local s, limit = texts[i] and shape(texts[i]) or FRESH, limits_of(name, limits[i])
    local l = {
      name = name, flying = tonumber(a), waiting = tonumber(b), was = ins[i], text = texts[i],
      window = s.window or math.min(FIRST_WINDOW, limit.top), slow = s.slow, state = s, limits = limit,
      own = false, had = tonumber(a), ready = nil, emptied = false, place = false,
    }
    lanes[name] = l
    met[#met + 1] = l
  end
end

local function load(names)
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

-- own is a lane's state to change: equal ones share what was parsed.
local function own(l)
  if not l.own then
    local s = l.state
    l.state = { fails = s.fails, opened = s.opened, till = s.till, tat = s.tat, keys = s.keys }
    l.own = true
  end
  return l.state
end

local function queued(l)
  if not l.ready then
    l.ready = l.waiting > 0 and call('LLEN', READY .. l.name) or 0
  end
  return l.ready
end

-- sets_of lists the lines in which a delivery may stand: of its lane, and of its own key.
local function sets_of(l, record)
  local sets = { BEHIND .. l.name .. ':*' }
  local key = record and #record > DIGEST and key_of(record) or NO_KEY
  if key ~= NO_KEY then sets[2] = BEHIND .. l.name .. ':' .. hex(key) end
  return sets
end

-- room is how many deliveries a lane may have in flight; one, the probe, while its breaker is open.
local function room(l)
  if l.state.opened > 0 or l.limits.ordered then return 1 end
  return math.min(l.window, l.limits.top)
end

-- counted_from is the time in us from which a lane's tokens count.
local function counted_from(tat)
  return tat < micros - IDLE and micros or math.max(tat, micros - BURST)
end

-- tokens is how many attempts a lane's rate allows now.
local function tokens(l)
  local interval, tat = l.limits.interval, l.state.tat
  if interval == 0 then return math.huge end
  if tat > micros then return 0 end
  return floor((micros - counted_from(tat)) / interval) + 1
end
local function take(l, n)
  local s = own(l)
  s.tat = counted_from(s.tat) + n * l.limits.interval
end
local function give_back(l)
  if l.limits.interval == 0 then return end
  local s = own(l)
  s.tat = math.max(0, s.tat - l.limits.interval)
end

-- allows is the ms from which on a lane's state lets an attempt begin.
local function allows(l)
  local s = l.state
  if l.limits.interval == 0 then return s.till end
  return math.max(s.till, math.ceil(s.tat / 1000))
end

-- ends reports whether what waits in a lane, and what comes, ends: its endpoint is disabled or deleted.
local function ends(l) return l.limits.held == 'd' or l.limits.held == 'x' end

-- A lane weighs what it has in flight, and its class as often as the instance has permits for: of 1,024 hung lanes leave
-- 64 to better ones, as many as begin to hang at once without taking the last. With few permits the classes count less,
-- or lanes of quick answers would have all of them for ever.
local scale = permits > 0 and math.min(MOST_SCALE, permits / CLASS_PERMITS) or MOST_SCALE
local function weight(l) return l.flying + floor(l.slow * scale) end

-- light reports whether a lane may be given a permit of an instance that has free ones. The classes keep the last
-- permits for better lanes; who holds nothing takes whatever there is.
local function light(l, free)
  if free <= 0 then return false end
  return free == permits or weight(l) < free
end

local counts, buried, log = {}, {}, {}
local function count(status, n) counts[status] = (counts[status] or 0) + n end
local function bury(lane, reason, n)
  local field = lane .. ' ' .. reason
  buried[field] = (buried[field] or 0) + n
end
local function note(delivery, verdict, status, took, number, reason)
  log[#log + 1] = delivery .. ' ' .. verdict .. ' ' .. status .. ' ' .. took .. ' ' .. number .. ' ' .. reason
end

-- progress of a delivery: attempts, base, deaths, status, asked, reason.
local function progress(text)
  if not text then return 0, 0, 0, 0, 0, '-' end
  local a, b, d, s, q, r = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d) (%S+)$')
  if not a then return 0, 0, 0, 0, 0, '-' end
  return tonumber(a), tonumber(b), tonumber(d), tonumber(s), tonumber(q), r
end
local function progressed(a, b, d, s, q, r) return format('%d %d %d %d %d %s', a, b, d, s, q, r) end
local function waits(text)
  local attempts, base = progress(text)
  return attempts > base and 'retrying' or 'scheduled'
end

local function add(hash, deltas)
  for field, n in pairs(deltas) do
    if n ~= 0 and call('HINCRBY', hash, field, n) == 0 then call('HDEL', hash, field) end
  end
end

-- What is earliest: of a zset by time, 0 for none; and the weight of the lightest lane, -1 for none.
local function earliest(key)
  local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return head[2] and tonumber(head[2]) or 0
end
local function lightest()
  local head = call('ZRANGE', LANES, 0, 0, 'WITHSCORES')
  return head[2] and floor(tonumber(head[2]) / TURN) or -1
end
local function sooner(a, b)
  if a == 0 or b == 0 then return a + b end
  return math.min(a, b)
end

local before_parked, before_weight = earliest(PARKED), lightest()
local before_due = sooner(earliest(DUE), before_parked)

-- weighs is the weight that a hint tells: none while all lanes are held.
local function weighs(w)
  if w < 0 then return w end
  if all_held == nil then all_held = call('HEXISTS', LIMITS, '*') == 1 end
  return all_held and -1 or w
end

-- place_lanes puts each lane that changed where it belongs: one that may be claimed from into :lanes, or :parked where it
-- has to wait; into :parked one whose ready list has to be ended, so that any instance's mover does it; others nowhere.
-- It answers whether :parked may be another than before.
local function place_lanes()
  local claimable, parked, unlisted, unparked = {}, {}, {}, {}
  for _, l in ipairs(met) do
    if l.place or l.emptied or l.flying ~= l.had then
      local n, name = queued(l), l.name
      local at -- ms from which on; nil: not at all
      if n > 0 then
        if ends(l) then
          at = now
        elseif l.limits.held == '-' and l.flying < room(l) then
          at = allows(l)
        end
      end
      if at and (at > now or ends(l)) then
        parked[#parked + 1] = num(at)
        parked[#parked + 1] = name
        unlisted[#unlisted + 1] = name
      elseif at then
        claimable[#claimable + 1] = num(weight(l) * TURN + now)
        claimable[#claimable + 1] = name
        unparked[#unparked + 1] = name
      elseif n > 0 or l.emptied or l.place then
        unlisted[#unlisted + 1] = name
        unparked[#unparked + 1] = name
      end
    end
  end
  each('ZREM', LANES, unlisted)
  if before_parked > 0 then each('ZREM', PARKED, unparked) end
  each('ZADD', LANES, claimable)
  each('ZADD', PARKED, parked)
  return #parked > 0 or (before_parked > 0 and #unparked > 0)
end

-- write_lanes keeps what changed about lanes.
local function write_lanes()
  local ins, texts, made = {}, {}, {}
  for _, l in ipairs(met) do
    -- Where a count was wrong, what leaves its place is not in it.
    local inside = math.max(0, l.flying) .. ' ' .. math.max(0, l.waiting)
    local used = inside ~= (l.was or '0 0') -- a lane that was only asked for gets no state
    if used then
      ins[#ins + 1] = l.name
      ins[#ins + 1] = inside
    end
    if used or l.own then
      local s = l.state
      local rest = l.own and format('%.0f %.0f %.0f %.0f %.0f', s.fails, s.opened, s.till, s.tat, s.keys) or s.rest
      local text = l.window .. ' ' .. rest .. ' ' .. l.slow
      if text ~= l.text then
        texts[#texts + 1] = l.name
        texts[#texts + 1] = text
        if not l.text then
          made[#made + 1] = now
          made[#made + 1] = l.name
        end
      end
    end
  end
  each('HSET', IN, ins)
  each('HSET', LANE, texts)
  each('ZADD', KNOWN, made)
end

-- finish writes what the script changed about lanes and counts, tells the others if there is something to do earlier
-- than they know, and answers now (in microseconds, so that answers have an order), due, weight: the caller's own hint.
-- lines and codes are of settle, whose caller wrote what others note here.
local function finish(lines, codes)
  local moved = place_lanes()
  write_lanes()
  add(COUNTS, counts)
  add(BURIED, buried)
  if lines then call('XADD', ATTEMPTS, 'MAXLEN', '~', LOG_ENTRIES, '*', 'l', lines, 'c', codes) end
  if #log > 0 then call('XADD', ATTEMPTS, 'MAXLEN', '~', LOG_ENTRIES, '*', 'l', table.concat(log, '\n')) end

  local due = sooner(earliest(DUE), moved and earliest(PARKED) or before_parked)
  local w = weighs(lightest())
  local earlier = due > 0 and (before_due == 0 or due < before_due)
  local lighter = w >= 0 and (before_weight < 0 or w < before_weight)
  if silent == '0' and (earlier or lighter) then
    local project, n = string.match(tag, '^{(.+):(%d+)}$')
    call('PUBLISH', '{' .. project .. '}:wake', n .. ' ' .. num(micros) .. ' ' .. num(due) .. ' ' .. w .. ' ' .. by)
  end
  return micros, due, w
end
