-- common: the names, the clock and the bookkeeping that every script shares. It is put before each.
--
-- KEYS[1] tag   {<project>:<n>}; never exists, and every other name is made from it. It is the only declared key: in a
--               slot that is moving, Redis then answers ASK before the script starts, instead of ending it in its middle.
-- ARGV[1] by    the instance that calls
-- ARGV[2] conf  "<largest window> <permits of the calling instance>"
--
-- Rules: all ARGV is read before the first write, since writes are not rolled back; every script but schedule writes a
-- removal first, since Redis refuses a script at its first write when memory is full; TIME is read once.
--
-- What the keys hold (keys.go has the same names):
--   :messages        hash  message id -> record: digest 16 bytes; created, deliver-at, expires-at 6 bytes each (ms, big
--                          endian, 0 none); key's hash 8; 1 byte length of lane, lane; 2 bytes length of meta, meta; body.
--                          A record of 16 bytes is a digest alone: the id is known, the message is not kept.
--   :fan             hash  message id -> "a b -c": its lanes here, - before each that is gone; only for more than one
--   :due             zset  <lane>:<id> by due time in ms
--   :ready:<lane>    list  <due>:<id>
--   :leases:<inst>   zset  <lane>:<id> by time of claim
--   :marks           hash  <lane>:<id> -> c cancelled, d delivered, though it is still ready or leased
--   :progress        hash  <lane>:<id> -> "attempts base deaths status asked reason"; base: attempts when its ladder
--                          began; asked: 1 if a person asked for the next attempt; reason: - for none
--   :history:<l>:<i> list  newest first "<due of next, 0 none> <length of meta> <meta><excerpt>", at most 32
--   :done :cancelled :dead zset <lane>:<id> by end time
--   :seen            zset  message id by time its record was cut to the digest
--   :lanes           zset  lanes that may be claimed from by weight * 2^41 + ms of last turn
--   :in              hash  lane -> "in-flight waiting"
--   :lane            hash  lane -> "window fails opened until tat keys slow"
--   :known           zset  lane by when its state was made or last looked at
--   :counts          hash  status -> number; :buried hash "<lane> <reason>" -> dead; no field is 0
--   :fenced          zset  instances declared dead by when
--   :attempts        stream one entry a script; l: what was settled or ended, a line each, delivery, verdict, status, took ms,
--                          number, reason; c (settle): a digit for each line, what settle answered to it
local tag, by, call, format, floor = KEYS[1], ARGV[1], redis.call, string.format, math.floor

local MESSAGES, FAN, DUE, READY = tag .. ':messages', tag .. ':fan', tag .. ':due', tag .. ':ready:'
local LEASES, MARKS, PROGRESS, HISTORY = tag .. ':leases:', tag .. ':marks', tag .. ':progress', tag .. ':history:'
local DONE, CANCELLED, DEAD, SEEN = tag .. ':done', tag .. ':cancelled', tag .. ':dead', tag .. ':seen'
local LANES, IN, LANE, KNOWN = tag .. ':lanes', tag .. ':in', tag .. ':lane', tag .. ':known'
local COUNTS, BURIED, FENCED, ATTEMPTS = tag .. ':counts', tag .. ':buried', tag .. ':fenced', tag .. ':attempts'

local DIGEST = 16     -- bytes of a record that are its digest
local TURN = 2199023255552 -- 2^41: above any ms until 2039, and 4,000 weights of it stay exact in a double
local FIRST_WINDOW, UNKNOWN, WORST = 2, 4, 8 -- a lane's window and class before it was seen; the class of one that hangs
local FULL_CLASSES = 128 -- permits from which on the classes count whole
local LOG_ENTRIES = 1000 -- of :attempts; one holds what one script settled

local clock = call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = floor(micros / 1000)           -- what is due by now
local from = math.ceil(micros / 1000)      -- what waits is counted from here, so that it is never early
local most, permits = string.match(ARGV[2], '^(%d+) (%d+)$')
most, permits = tonumber(most), tonumber(permits)

local function num(x) return format('%.0f', tonumber(x)) end

-- each calls command for values of a list, a chunk at a time: unpack has a limit.
local function each(command, key, values)
  for i = 1, #values, 1000 do
    call(command, key, unpack(values, i, math.min(i + 999, #values)))
  end
end

local find, sub = string.find, string.sub
local function lane_of(delivery) return sub(delivery, 1, find(delivery, ':', 1, true) - 1) end
local function parts(delivery)
  local colon = find(delivery, ':', 1, true)
  return sub(delivery, 1, colon - 1), sub(delivery, colon + 1)
end

local function stamp(record, at)
  local a, b, c, d, e, f = string.byte(record, at, at + 5)
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end
local function created(record) return string.sub(record, 17, 22) end
local function deliver(record) return stamp(record, 23) end
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
-- set where a list got its first element, emptied where it lost its last: only then, or when its weight changed, is a
-- lane placed anew, so that one which is published to all the time keeps its turn.
local lanes, met, shapes = {}, {}, {}

local function shape(text)
  local s = shapes[text]
  if not s then
    local w, f, o, u, t, k, c = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    s = { tonumber(w), f .. ' ' .. o .. ' ' .. u .. ' ' .. t .. ' ' .. k, tonumber(c) }
    shapes[text] = s
  end
  return s
end

local function load(names)
  local new = {}
  for _, name in ipairs(names) do
    if not lanes[name] then
      lanes[name] = true
      new[#new + 1] = name
    end
  end
  if #new == 0 then return end
  local ins, texts = call('HMGET', IN, unpack(new)), call('HMGET', LANE, unpack(new))
  for i, name in ipairs(new) do
    local a, b = '0', '0'
    if ins[i] then a, b = string.match(ins[i], '^(%d+) (%d+)$') end
    local s = texts[i] and shape(texts[i])
    local l = {
      name = name, flying = tonumber(a), waiting = tonumber(b), was = ins[i], text = texts[i],
      window = s and math.min(s[1], most) or math.min(FIRST_WINDOW, most), rest = s and s[2] or '0 0 0 0 0',
      slow = s and s[3] or UNKNOWN, had = tonumber(a), ready = nil, emptied = false, place = false,
    }
    lanes[name] = l
    met[#met + 1] = l
  end
end

local function queued(l)
  if not l.ready then
    l.ready = l.waiting > 0 and call('LLEN', READY .. l.name) or 0
  end
  return l.ready
end

-- A lane weighs what it has in flight, and its class. With few permits the classes count less, or lanes of quick
-- answers would have all of them for ever.
local scale = permits > 0 and math.min(1, permits / FULL_CLASSES) or 1
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

-- peek answers the earliest due time, 0 for none, and the weight of the lightest lane, -1 for none.
local function peek()
  local head, due = call('ZRANGE', LANES, 0, 0, 'WITHSCORES'), call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  return due[2] and tonumber(due[2]) or 0, head[2] and floor(tonumber(head[2]) / TURN) or -1
end

local before_due, before_weight = peek()

-- finish writes what the script changed about lanes and counts, tells the others if there is something to do earlier
-- than they know, and answers now (in microseconds, so that answers have an order), due, weight: the caller's own hint.
-- lines and codes are of settle, whose caller wrote what others note here.
local function finish(lines, codes)
  local ins, texts, made, placed, taken = {}, {}, {}, {}, {}
  for _, l in ipairs(met) do
    local inside = l.flying .. ' ' .. l.waiting
    local used = inside ~= (l.was or '0 0') -- a lane that was only asked for gets no state
    if used then
      ins[#ins + 1] = l.name
      ins[#ins + 1] = inside
    end
    local text = l.window .. ' ' .. l.rest .. ' ' .. l.slow
    if text ~= l.text and used then
      texts[#texts + 1] = l.name
      texts[#texts + 1] = text
      if not l.text then
        made[#made + 1] = now
        made[#made + 1] = l.name
      end
    end
    if l.place or l.emptied or l.flying ~= l.had then
      if queued(l) > 0 and l.flying < l.window then
        placed[#placed + 1] = num(weight(l) * TURN + now)
        placed[#placed + 1] = l.name
      elseif l.ready > 0 or l.emptied then
        taken[#taken + 1] = l.name
      end
    end
  end
  each('ZREM', LANES, taken)
  each('ZADD', LANES, placed)
  each('HSET', IN, ins)
  each('HSET', LANE, texts)
  each('ZADD', KNOWN, made)
  add(COUNTS, counts)
  add(BURIED, buried)
  if lines then
    call('XADD', ATTEMPTS, 'MAXLEN', '~', LOG_ENTRIES, '*', 'l', lines, 'c', codes)
  elseif #log > 0 then
    call('XADD', ATTEMPTS, 'MAXLEN', '~', LOG_ENTRIES, '*', 'l', table.concat(log, '\n'))
  end

  local due, lightest = peek()
  local earlier = due > 0 and (before_due == 0 or due < before_due)
  local lighter = lightest >= 0 and (before_weight < 0 or lightest < before_weight)
  if earlier or lighter then
    local project, n = string.match(tag, '^{(.+):(%d+)}$')
    call('PUBLISH', '{' .. project .. '}:wake', n .. ' ' .. num(micros) .. ' ' .. num(due) .. ' ' .. lightest .. ' ' .. by)
  end
  return micros, due, lightest
end
