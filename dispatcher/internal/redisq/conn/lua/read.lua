-- read: where a delivery is. It is put between common and look, list and lanes, which share it. They change nothing.
-- needs: common(call, floor, marked_delivered, match, micros, now, num, sets_of, sub), lane_state(all_paused,
--   wait_letter), slots(slots), progress(waiting_status)
--
-- ARGV[3] count, ARGV[4..] the instances' names
local instance_count = tonumber(ARGV[3])
local instances = {}
for i = 4, 3 + instance_count do instances[#instances + 1] = ARGV[i] end
local args_from = 4 + instance_count

-- safely queries a key that may be of another type, written by hand. Such a key counts as empty. Any other error, such as
-- a missing right, ends the script: nothing is known then.
local function safely(command, ...)
  local value = redis.pcall(command, ...)
  if type(value) ~= 'table' or not value.err then return value end
  if string.find(value.err, 'WRONGTYPE', 1, true) then return false end
  return redis.call(command, ...)
end

-- number_ahead is how many deliveries of its ordering key, or of its ordered lane, go before a delivery.
local function number_ahead(l, id, record)
  local before = 0
  if l.state.keys == 0 then return before end
  for _, set in ipairs(sets_of(l, record)) do before = math.max(before, safely('ZRANK', set, id) or 0) end
  return before
end

-- lease_keys are the keys of leases that exist, of those instances.
local known_lease_keys
local function lease_keys()
  if known_lease_keys then return known_lease_keys end
  known_lease_keys = {}
  for _, name in ipairs(instances) do
    if call('EXISTS', LEASES .. name) == 1 then known_lease_keys[#known_lease_keys + 1] = LEASES .. name end
  end
  return known_lease_keys
end

-- taken_at is the ms when a delivery was taken whose lease ends by itself, false if it has none.
local function taken_at(delivery)
  if not safely('ZSCORE', TAKEN, delivery) then return false end
  return match(safely('HGET', TOKENS, delivery) or '', '^%d+') or '0'
end

-- pause_reason returns why a lane waits for its until while its breaker is closed.
local STALLED = { s = 'sealed', m = 'missing', e = 'egress' }
local function pause_reason(l)
  return l.limits.held == '?' and 'missing' or STALLED[wait_letter(l)] or 'retry_after'
end

-- ready_wait_reason returns the reason why a ready delivery waits: the first one that applies. A lane of an endpoint without
-- limits lost its endpoint, or gets them with the next publish. Behind a space follows the ms when the wait ends, if that is
-- known, and with order how many deliveries go first.
local function ready_wait_reason(l)
  local s = l.state
  if l.limits.held == '?' then return 'missing' end
  if s.opened > 0 then return s.till > now and 'breaker ' .. num(s.till) or 'breaker' end
  if s.egress > 0 and s.till <= now then return 'egress' end
  if s.till > now then return pause_reason(l) .. ' ' .. num(s.till) end
  if l.limits.interval > 0 and s.tat > micros then return 'rate ' .. num(math.ceil(s.tat / 1000)) end
  if l.flying >= slots(l) then return 'limit' end
  return l.limits.pull and 'consumer' or 'permits'
end
local function wait_reason(l, why)
  if l.limits.held == 'p' or all_paused then return 'paused' end
  return why
end

-- due_reason returns the reason why a delivery waits for its time.
local function due_reason(l, delivery, status)
  return wait_reason(l, safely('ZSCORE', UNOPENED, delivery) and 'sealed' or status == 'retrying' and 'rung' or 'due')
end

-- status_of returns the status of a delivery, the first one that applies. It also returns the time in ms of the end, of the
-- next attempt or of the claim, 0 for none. Last is the reason why the delivery waits, empty for none.
local function status_of(delivery, l, id, record)
  local mark = call('HGET', MARKS, delivery)
  if mark then return marked_delivered(mark) and 'delivered' or 'cancelled', 0, '' end
  local at = call('ZSCORE', DONE, delivery)
  if at then return 'delivered', at, '' end
  at = call('ZSCORE', DEAD, delivery)
  if at then return 'dead', at, '' end
  at = call('ZSCORE', CANCELLED, delivery)
  if at then return 'cancelled', at, '' end
  local deleted = l.limits.held == 'x'
  at = call('ZSCORE', DUE, delivery)
  if at and deleted then return 'cancelled', 0, '' end
  if at then
    local status = waiting_status(call('HGET', PROGRESS, delivery))
    return status, at, due_reason(l, delivery, status)
  end
  for _, key in ipairs(lease_keys()) do
    at = safely('ZSCORE', key, delivery)
    if at then return 'in_flight', at, '' end
  end
  at = taken_at(delivery)
  if at then return 'in_flight', at, '' end
  if deleted then return 'cancelled', 0, '' end
  local before = number_ahead(l, id, record)
  if before > 0 then return 'scheduled', 0, 'order ' .. num(before) end
  return 'ready', 0, wait_reason(l, ready_wait_reason(l))
end

-- last_attempt is the last attempt of a delivery's history, without the text of its answer; empty: it has none, because it has no
-- progress or did not fail.
local NEWEST = 256 -- bytes of a malformed one, enough to log an error
local function last_attempt(delivery, text)
  local entry = text and safely('LINDEX', HISTORY .. delivery, 0)
  if not entry then return '' end
  local head, length = match(entry, '^(%d+ (%d+) )')
  return head and sub(entry, 1, #head + tonumber(length)) or sub(entry, 1, NEWEST)
end

-- precedes compares two names as Redis orders members with one score: by their bytes. Lua compares texts in the order of the
-- locale of the server.
local function precedes(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- page_start returns the rank where a page begins: after the last entry of the page before, also if that entry is gone. Many entries
-- share one ms, so a binary search finds the place, by score and then by name.
local function page_start(key, after, last)
  if after == '' then return 0 end
  local rank = call('ZREVRANK', key, last)
  if rank and tonumber(call('ZSCORE', key, last)) == tonumber(after) then return rank + 1 end
  local low = call('ZCOUNT', key, '(' .. after, '+inf')
  local high = low + call('ZCOUNT', key, after, after)
  while low < high do
    local middle = floor((low + high) / 2)
    if precedes(call('ZREVRANGE', key, middle, middle)[1], last) then high = middle else low = middle + 1 end
  end
  return low
end
