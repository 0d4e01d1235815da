-- common: the names of the keys, the clock and the records. It is put before the other parts of each script.
--
-- KEYS[1] tag   {<project>:<n>}; every other name is made from it. It is the only declared key: in a slot that is moving,
--               Redis then answers ASK before the script starts, instead of ending it in its middle. It exists only while the
--               partition is torn (script.go).
-- ARGV[1] by    the instance that calls
-- ARGV[2] conf  "<largest window> <permits of the calling instance> <permits of all instances, 1 at least> <failures that
--               open a breaker, 0 none> <its first wait in ms> <most waiting in a lane, 0 any number> <1: nothing is published,
--               because PUBLISH may not be used> <random key of the project> <its id>", both in hex
--
-- Rules: A script reads all of ARGV before its first write, because Redis does not roll writes back. Every script calls
-- first_write before it changes anything, or first_addition if it must be refused when memory is full. A script reads TIME once.
--
-- The keys (keys.go has the same names):
--   :messages        hash  message id -> record: digest 16 bytes; created, deliver-at, expires-at 6 bytes each (ms, big
--                          endian, 0 none); key's hash 8; 1 byte length of lane, lane; 2 bytes length of meta, meta; body.
--                          A record of 16 bytes is a digest alone: the id is known, the message is not kept.
--                          Where the body lies apart, meta begins with its size, and no body follows.
--   :subjects        hash  8 bytes, the hash of a subject's token with the project's key -> the messages with it: "<id> <id>", at
--                          most 16; * if there are more, all of which are in :subject:<hash>
--   :subject:<hash>  zset  message ids by ms of acceptance. hash: the 8 bytes in hex
--   :digits:<three>  list  tokens of :subjects that end with these digits, each with the digit before them behind it: for each
--                          message that came while it had a field of its own in :subjects. The newest 4,096: behind an
--                          empty one, if others were there
--   :bodies          hash  "<message id> <digest>" -> a body that with its head would be more than 16 KiB
--   :staged          zset  fields of :bodies whose message is not written yet, by the ms when they were staged
--   :fan             hash  message id -> "a b -c": its lanes here, - before each that is gone; only for more than one;
--                          -* for others that are gone, which a repartition could not name
--   :due             zset  <lane>:<id> by due time in ms
--   :ready:<lane>    list  <due>:<id>
--   :of:<lane>       zset  message ids by ms of their acceptance: each delivery of the lane that exists, whatever its state.
--                          The record has the same time. :of:<queue>~<hash>: the deliveries of one tenant in a queue
--   :tenant:<hash>   zset  the lists of :of: of a tenant that are not empty: its lanes, and its parts of queues. Each has the
--                          score 0. hash: of the tenant, with the project's key
--   :owners          hash  lane -> that hash of the tenant whose messages go there, but for queues; as long as :of:<lane>
--   :behind:<l>:<k>  zset  message ids of all unfinished deliveries of an ordering key by ms, each later than the one
--                          before: the first is also due, ready or leased, the others only here. k: the record's hash of
--                          the key in hex; * in an ordered lane
--   :leases:<inst>   zset  <lane>:<id> by time of claim
--   :marks           hash  <lane>:<id> -> c cancelled, d delivered, though it is still ready or leased; behind d follows
--                          the ms at which :attempts has the line of that late success
--   :progress        hash  <lane>:<id> -> "attempts base deaths status asked reason beside job"; base: attempts when its
--                          ladder began; deaths: of its holders since the last settle, 2 for more too: a suspect. 3: its attempt
--                          has begun by the lease it has; 4: so, and other code of the caller runs beside it; 5: it has to
--                          be attempted alone; 6: it has begun alone. asked: 0, or a person asked for the next attempt: 1 if that is the first of a
--                          new ladder, else the due time in ms that it interrupted; reason: - for none; beside: attempts
--                          of this ladder that a person asked for while it waited; job: the last one that retried it, or
--                          could not, 0 none; a + behind it until the delivery ends, or another sends it. Three more follow if it was delivered and sent again: when in ms, the status of that answer, the number of that attempt.
--                          The last one is z and how often its handler let it wait on this ladder, if it did.
--                          Further fields are ignored and kept
--   :history:<l>:<i> list  newest first "<due of next, 0 none> <length of meta> <meta><excerpt>", at most 32
--   :done :cancelled :dead zset <lane>:<id> by end time. In :done a part below a ms, as .204, is the status of a first success
--                          with no entry in :progress; 200 has none
--   :seen            zset  message id by time its record was cut to the digest; half a ms later if an archive reported it
--   :lanes           zset  lanes that may be claimed from by weight * 2^41 + ms of last turn
--   :parked          zset  lanes by ms: those that may be claimed from at that time, and those held d or x whose ready
--                          list has to be ended; ~taken by the earliest end of a lease in :taken; and ~expiring by the
--                          earliest time in :expiring, or before it, or within a second if that has passed
--   :pulls           zset  lanes whose deliveries are taken and not called, which may be taken from, by ms since when: no
--                          such lane is in :lanes
--   :taken           zset  <lane>:<id> by ms when its lease ends: in flight, and leased to no instance
--   :tokens          hash  <lane>:<id> -> "since token owner attempt" of that lease: ms, two words, number of the attempt. It
--                          stays when the lease has ended, until the delivery ends or is taken again. A day after since it
--                          says nothing any more
--   :expiring        zset  <lane>:<id> of each that has not ended and whose message expires, by that ms; half a ms later
--                          than some time, when it is looked at again, where it had expired and was in flight or too deep in
--                          a long list to be ended
--   :unopened        zset  <lane>:<id> of each that waits alone because no key opens the headers of its message, by the ms since
--                          when: until it ends, or an attempt fails
--   :in              hash  lane -> "in-flight waiting"; waiting: due, ready and behind. It goes with the last entry of
--                          :of:<lane>: without one, schedule looks whose the lane is
--   :lane            hash  lane -> "window fails opened until tat keys slow failing reported": until in ms, tat (when the rate
--                          allows the next) in us, 0 none; keys: how many sets of :behind it has; failing: since when in
--                          ms, 0: it does not; reported: 0. Then may follow the ms of its last attempt while it failed, and a
--                          letter: until is not the receiver's wish then, but s: its endpoint can't be opened or read, m: it
--                          is not there, e: our own network failed; behind e "<since when in ms>-<last wait in ms>". Further
--                          fields are ignored and kept
--   :failures        hash  lane -> id of the message whose attempt there failed last. What went wrong is in the history of that
--                          delivery, so that it goes with the message
--   :limits          hash  lane -> "version max interval ordered held": max 0 the default; interval us, 0 no rate; ordered
--                          0 or 1; held - no, p paused, d disabled, x deleted, g cut at the ms in the place of the version:
--                          deliveries accepted until then end; behind it " t" if consumers take them; * -> all lanes are paused. No text: no limits, but a lane ep_...
--                          without one is not claimed from. ~epoch -> a name of this partition's data, made with the partition: the
--                          second at which that was, to the base 36, - and a random text. Where it is missing, or another one, the data were lost.
--                          ~readied -> ms when a delivery last became ready that was accepted before
--   :held            hash  lane -> "held since by" of each that :limits says is held, * too: its letter, since when in ms, and
--                          the name of the key that asked for it, or system
--   :names           hash  lane -> "origin tenant" of a bare URL's, name of a queue's; written where the lane is made or held
--   :known           zset  lane by when its state was made or last looked at
--   :counts          hash  status -> number; :buried hash "<lane> <reason>" -> dead; no field is 0
--   :ends            hash  "dead <reason>" and "cancelled -" -> how many ever ended so: no retry and no trim lowers it
--   :jobs            hash  number of a job -> "turn since matched done failed left passed cursor": its progress here (job.lua);
--                          "<number> failures" -> a line "<reason> <delivery>" for each of the first that could not be;
--                          "<number> left" -> "<reason> <how many>" for each reason for which deliveries were left;
--                          "<number> ends" -> how many of those that it sent were "delivered cancelled dead taken-over" since;
--                          "<number> probe <lane>" -> ok, failed, or "<ms> <its attempts before> <failing of its lane> <message id>" of
--                          the delivery of that lane which the job sent first; "<number> probes" -> how many such fields;
--                          sent -> ms of the last step of a job that retries
--   :fenced          zset  instances declared dead by when
--   :attempts        stream attempts and ends, a line each: delivery, verdict, status, took ms, number, reason. l: the lines.
--                          Of settle there is an entry for each 64 lines, with two fields more: c, a digit for each line, the
--                          answer of settle to it; e, the evidence of the attempts, which only Go reads (package read); n
--                          where some are due again: when in ms, of each line with the verdict r and the digit 1; and j where
--                          jobs sent some: "<lines before> <lines> <number of the job>" for each run of lines of one job.
--                          Each script has one entry for the ends without an attempt of their own: delivered (a late success:
--                          its reason is the ms of that one's line), cancelled, dead, forgotten; and two that end nothing:
--                          restored, and resent: its reason is anew, the due time in ms that it interrupted, or - if it was to
--                          end; behind a comma may follow the name of the key that asked.
--                          With an archive, schedule has an entry for the accepted deliveries: a, the names; w, the words
--                          of its answer; b, the bytes that it stored. z: a mark, see archived.lua. k: "lane version held", a change of
--                          that lane's endpoint, or of whether the lane is held; of * only partition 0 has one
--   :archive         hash  cut -> the id before which entries of :attempts may have been cut; ended, dead -> ms of the newest
--                          end that trim forgot: of a delivered or cancelled delivery, of a dead one. With an
--                          archive: p -> the id up to which entries are
--                          archived; b -> bytes that schedule stored behind it; gap -> the first id behind entries that
--                          were given up before they were archived; dropped -> how many lines these had. While an archive is
--                          put back: restoring -> held or free, as all lanes are to be then; until then they are held, and
--                          schedule takes nothing
--   :health:<half>   hash  lane -> "delivered refused server timeout connect internal", behind them how many answers took
--                          up to 10, 50, 100, 250, 500, 1000, 5000 ms, and longer, and then "tls dns"; zeros at the end are left
--                          out; * -> all lanes that found no room. Of the half hour of that number since 1970. It goes after a day, and by
--                          itself (health.lua)
--   :added           zset  instances by the last part of their counts that was added to :health
local tag, by, call, format, floor = KEYS[1], ARGV[1], redis.call, string.format, math.floor

local MESSAGES, FAN, DUE, READY = tag .. ':messages', tag .. ':fan', tag .. ':due', tag .. ':ready:'
local LEASES, MARKS, PROGRESS, HISTORY = tag .. ':leases:', tag .. ':marks', tag .. ':progress', tag .. ':history:'
local DONE, CANCELLED, DEAD, SEEN = tag .. ':done', tag .. ':cancelled', tag .. ':dead', tag .. ':seen'
local PULLS, SHELF, TENANT, OWNERS = tag .. ':pulls', tag .. ':of:', tag .. ':tenant:', tag .. ':owners'
local TAKEN, TOKENS = tag .. ':taken', tag .. ':tokens'
local EXPIRING, UNOPENED = tag .. ':expiring', tag .. ':unopened'
local LANES, PARKED, IN, LANE = tag .. ':lanes', tag .. ':parked', tag .. ':in', tag .. ':lane'
local LIMITS, KNOWN, NAMES, BEHIND = tag .. ':limits', tag .. ':known', tag .. ':names', tag .. ':behind:'
local BODIES, STAGED, SUBJECTS, SUBJECT = tag .. ':bodies', tag .. ':staged', tag .. ':subjects', tag .. ':subject:'
local COUNTS, BURIED, FENCED, ATTEMPTS = tag .. ':counts', tag .. ':buried', tag .. ':fenced', tag .. ':attempts'
local HELD, ENDS, JOBS, ARCHIVE = tag .. ':held', tag .. ':ends', tag .. ':jobs', tag .. ':archive'
local HEALTH, ADDED, FAILURES, DIGITS = tag .. ':health:', tag .. ':added', tag .. ':failures', tag .. ':digits:'

local DIGEST = 16     -- bytes of a record that are its digest
local TURN = 2199023255552 -- 2^41: above any ms until 2039, and 4,000 weights of it stay exact in a double
local FIRST_WINDOW, UNKNOWN, WORST = 2, 3, 8 -- a new lane's window and class, before its first answer; the class of a lane that hangs
local CLASS_PERMITS = 128 -- permits of all instances for which a class counts as one delivery in flight
local WHOLE, MOST_WEIGHT = 2048, 4095 -- weight of all instances' permits; the highest weight that fits in a score
local BURST = 50000 -- us; a lane in use may make up for this time of its rate, so that a late timer loses nothing
local IDLE = 1000000 -- us; after this time without an attempt, a lane begins with one token, and has none to make up for

local clock = call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = floor(micros / 1000)           -- deliveries with this time are due
local ceil_now = math.ceil(micros / 1000)      -- waits begin here, so that no attempt is early
local at_now = format('%d', now)           -- now as a score, because Redis formats each number in a command again, which is the dearest part of it
local max_window, permits, all_permits, breaker_threshold, first_wait, most_waiting, silent =
  string.match(ARGV[2], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ([01]) ')
if max_window then -- the probe of a store has no settings
  max_window, permits, all_permits = max_window + 0, permits + 0, all_permits + 0 -- tonumber would read each text twice
  breaker_threshold, first_wait, most_waiting = breaker_threshold + 0, first_wait + 0, most_waiting + 0
end

-- first_write comes before the first change. Redis refuses a script at its first write if memory is full or the disk is, so
-- that one must be a command which needs no memory and changes nothing: a mark stays until 2100. It also tells whether the
-- partition is torn: then only the scripts that mend it may go on. whole: the script has seen that it is not, in a query that
-- it needs anyhow, and its first change needs no memory. That saves the command.
local function first_write(mends, whole)
  if not whole and call('EXPIREAT', tag, '4102444800') == 1 and not mends then
    begun = false
    error('TORN')
  end
  begun = true
end

-- first_addition is first_write for a script that Redis has to refuse if memory is full.
local function first_addition(mends, whole)
  if not whole and call('EXISTS', tag) == 1 and not mends then
    begun = false
    error('TORN')
  end
  begun = true
end

local function num(x) return format('%.0f', tonumber(x)) end

-- sure makes a call that must not fail because the script has changed something already. A key of another type has none of our
-- data. sure deletes it, and writes a warning to the log of Redis.
local function sure(command, key, ...)
  local value = redis.pcall(command, key, ...)
  if type(value) ~= 'table' or not value.err then return value end
  if string.find(value.err, 'WRONGTYPE', 1, true) then
    redis.log(redis.LOG_WARNING, 'hookladder: ' .. key .. ' is of another kind: it is deleted')
    redis.call('DEL', key)
  end
  return redis.call(command, key, ...)
end

-- in_chunks calls command for the values of a list, in chunks, because unpack has a limit.
local function in_chunks(command, key, values)
  local n = #values
  if n == 0 then return end
  if n <= 1000 then
    sure(command, key, unpack(values))
    return
  end
  for i = 1, n, 1000 do sure(command, key, unpack(values, i, math.min(i + 999, n))) end
end

-- added appends one or two values to a list for in_chunks, and returns the list: a new one for nil.
local function added(list, a, b)
  if not list then return { a, b } end
  local n = #list
  list[n + 1], list[n + 2] = a, b
  return list
end

-- read_fields reads fields of a hash that is mostly empty. An empty hash costs one short call.
local NONE = {}
local function read_fields(hash, fields)
  if #fields > 4 and call('HLEN', hash) == 0 then return NONE end
  return call('HMGET', hash, unpack(fields))
end

local find, sub, match = string.find, string.sub, string.match
-- A malformed name, written by hand, is a lane without a message. The script that reads it drops it and continues.
local function lane_of(delivery) return sub(delivery, 1, (find(delivery, ':', 1, true) or #delivery + 1) - 1) end
local function split(delivery)
  local colon = find(delivery, ':', 1, true) or #delivery + 1
  return sub(delivery, 1, colon - 1), sub(delivery, colon + 1)
end

-- marked_delivered reports whether a mark says that its delivery was delivered.
local function marked_delivered(mark) return mark and sub(mark, 1, 1) == 'd' end

-- A record that was cut by hand may lack its time, key or lane. The instance that claims it logs that it can't be read.
local SANE = 9007199254740992 -- 2^53: no number of ours is larger
local HEAD = 43 -- bytes of a record that have fixed places
-- score_ms writes a score as ms. A score that is no time counts as long ago.
local function score_ms(score)
  return string.find(score, '^%d+$') and #score < 16 and score or num(math.max(0, math.min(tonumber(score) or 0, SANE)))
end
local function stamp(record, at)
  local a, b, c, d, e, f = string.byte(record, at, at + 5)
  if not f then return 0 end
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end
local function created_at(record) return stamp(record, 17) end
local function deliver_at(record) return stamp(record, 23) end
local NO_KEY = '\0\0\0\0\0\0\0\0'
local function key_of(record) return #record < HEAD and NO_KEY or sub(record, 35, 42) end
local function hex(key) return format('%02x%02x%02x%02x%02x%02x%02x%02x', string.byte(key, 1, 8)) end

-- sets_of lists the sets of :behind in which a delivery may be: the set of its lane, and the set of its ordering key.
local function sets_of(l, record)
  local sets = { BEHIND .. l.name .. ':*' }
  local key = record and #record > DIGEST and key_of(record) or NO_KEY
  if key ~= NO_KEY then sets[2] = BEHIND .. l.name .. ':' .. hex(key) end
  return sets
end

local NEVER = '\0\0\0\0\0\0'
local function expires_at(record) return sub(record, 29, 34) == NEVER and 0 or stamp(record, 29) end
local function only_lane(record) return #record < HEAD and '' or sub(record, 44, 43 + string.byte(record, HEAD)) end

-- A body in :bodies: body_apart reports whether a record has one, by the first field of its meta. body_of returns its field of
-- :bodies. drop_body deletes it.
local function body_apart(record)
  return #record > 46 and string.byte(record, 47 + string.byte(record, 43)) == 12
end
local function body_of(id, record) return id .. ' ' .. sub(record, 1, DIGEST) end
local function drop_body(id, record)
  if body_apart(record) then call('HDEL', BODIES, body_of(id, record)) end
end

-- head_of returns a record without its body. Of a malformed record it returns only a part, which is enough to log an error.
local function head_of(record)
  local at = 44 + (string.byte(record, 43) or 0)
  local a, b = string.byte(record, at, at + 1)
  return sub(record, 1, b and at + 1 + a * 256 + b or DIGEST + 1)
end

-- lanes_of lists the lanes of a message here, with a - before each that is gone.
local function lanes_of(id, record)
  local fan = call('HGET', FAN, id)
  if not fan then return { only_lane(record) } end
  local list = {}
  for lane in string.gmatch(fan, '%S+') do list[#list + 1] = lane end
  return list
end

-- kept_record returns the record of a delivery if its message is kept whole, and names its lane as not gone. wholes is a cache
-- of the script: a message and its lanes, up to a thousand, so that they are read once for all its deliveries.
local function kept_record(lane, id, wholes) -- rare
  local whole = wholes[id]
  if whole == nil then
    local record = call('HGET', MESSAGES, id)
    whole = false
    if record and #record > DIGEST then
      whole = { record = record, lanes = {} }
      for _, name in ipairs(lanes_of(id, record)) do whole.lanes[name] = true end
    end
    wholes[id] = whole
  end
  return whole and whole.lanes[lane] and whole.record or false
end

-- earliest returns the earliest time of a zset, 0 for none. lightest returns the weight of the lightest lane, -1 for none.
local function earliest(key)
  local head = call('ZRANGE', key, '0', '0', 'WITHSCORES')
  local at = head[2] and tonumber(head[2])
  if not at or at >= SANE then return 0 end
  return at < 1 and 1 or at -- a score below every time is due
end
local function lightest()
  local head = call('ZRANGE', LANES, '0', '0', 'WITHSCORES')
  if not head[2] then return -1 end
  local w = floor((tonumber(head[2]) or SANE) / TURN)
  return w < 0 and 0 or w > MOST_WEIGHT and MOST_WEIGHT or w
end
local function sooner(a, b)
  if a == 0 or b == 0 then return a + b end
  return math.min(a, b)
end

-- add_counts adds numbers to fields of a hash. A field that is no number begins again, because doctor recounts it.
local function add_counts(hash, deltas)
  for field, n in pairs(deltas) do
    if n ~= 0 then
      local sum = redis.pcall('HINCRBY', hash, field, n)
      if type(sum) == 'table' then
        local text = sum.err
        if string.find(text, 'integer', 1, true) or string.find(text, 'overflow', 1, true) or string.find(text, 'WRONGTYPE', 1, true) then
          sure('HDEL', hash, field) -- any other error, such as a missing right, leaves the count as it is
        end
        sum = call('HINCRBY', hash, field, n)
      end
      if sum == 0 then call('HDEL', hash, field) end
    end
  end
end

local logged_now -- whether the newest entry of :attempts is of the present ms; nil before write_log

-- write_log adds an entry to :attempts, which trim cuts. It begins the stream again if the last entry has the highest possible
-- id, or if the key is no stream. If the new id is of the present ms, no clock was ahead of this one, because ids never go
-- back. Any other error, such as a missing right, leaves the entries there: the archive may not have read them.
local function write_log(...)
  local id = redis.pcall('XADD', ATTEMPTS, '*', ...)
  if logged_now == nil then logged_now = type(id) == 'string' and find(id, at_now .. '-', 1, true) == 1 end
  if type(id) == 'table' and id.err then
    local useless = string.find(id.err, 'last possible', 1, true) or string.find(id.err, 'WRONGTYPE', 1, true)
    if useless then call('DEL', ATTEMPTS) end
    call('XADD', ATTEMPTS, '*', ...)
    sure('HSET', ARCHIVE, 'cut', at_now .. '-0')
  end
end

-- end_time returns the ms of the ends of this script. It is not before an earlier end, though the clock may have been set
-- back. So a reader that pages by the time of the end skips none. A time more than an hour ahead comes from a wrong clock.
local ended_at
local function end_time()
  if logged_now then return now end
  if ended_at then return ended_at end
  local at = now
  for _, key in ipairs({ DONE, CANCELLED, DEAD }) do
    local newest = sure('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2]
    newest = newest and floor(tonumber(newest) or 0) or 0
    if newest > at and newest <= now + 3600000 then at = newest end
  end
  ended_at = at
  return at
end

-- publish sends a hint to all instances of the project.
local function publish(hint)
  local project, n = string.match(tag, '^{(.+):(%d+)}$')
  local id = string.match(ARGV[2], '^.* (%x+)$') -- without an anchor in front, each digit of the key would be tried as its begin
  call('PUBLISH', '{' .. project .. '}:wake', id .. ' ' .. n .. ' ' .. num(micros) .. ' ' .. hint)
end
