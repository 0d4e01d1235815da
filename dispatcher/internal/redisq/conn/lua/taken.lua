-- taken: leases of consumers, which no instance has and which end by timeout. It is put behind order, before the scripts that
-- give and end them. It takes no arguments of its own: ARGV[3..] is the script's.
-- needs: common(at_now, floor, head_of, in_chunks, lane_of, match, now, num, score_ms, split, sure),
--   leases(write_leases), lane_state(lanes, load_lanes), progress(parse_progress), sums(append_pair, count, sums),
--   ends(drop_delivery, removed_marks), order(leave_line)
local TIMER = '~taken' -- in :parked; no lane has such a name
local LONGEST_LEASE = 3660000 -- ms; an hour, the longest lease, and a minute: an end after that is of another clock, and counts as passed

-- first_lease_end returns the ms when the first of these leases ends, 0 if there is none.
local function first_lease_end()
  local head = sure('ZRANGE', TAKEN, '0', '0', 'WITHSCORES')[2]
  if not head then return 0 end
  local first = math.max(1, floor(tonumber(head)))
  if sure('ZCOUNT', TAKEN, '(' .. num(now + LONGEST_LEASE), '+inf') > 0 then return math.min(first, now) end
  return first
end

-- set_timer writes to :parked when the first of them ends, so that a mover comes then. It reports whether that changed.
local function set_timer()
  local first, told = first_lease_end(), sure('ZSCORE', PARKED, TIMER)
  if first == (tonumber(told or nil) or 0) then return false end
  if first == 0 then sure('ZREM', PARKED, TIMER) else sure('ZADD', PARKED, num(first), TIMER) end
  sums.parked = true
  return true
end

-- lease_until writes leases that end by themselves: names, each behind its time, as write_leases has them. rungs has the progress of
-- each name.
local function lease_until(leases, ends, token, owner, rungs)
  local until_then, texts = {}, {}
  for i = 2, #leases, 2 do
    append_pair(until_then, num(ends), leases[i])
    append_pair(texts, leases[i], at_now .. ' ' .. token .. ' ' .. owner .. ' ' .. (parse_progress(rungs[leases[i]])) + 1)
  end
  in_chunks('ZADD', TAKEN, until_then)
  in_chunks('HSET', TOKENS, texts)
  set_timer()
end

-- parse_token parses a text of :tokens: ms when a delivery was taken, token, owner and number of the attempt. A malformed text
-- has none of these.
local function parse_token(text)
  local at, token, owner, attempt = match(text or '', '^(%d+) (%S+) (%S+) (%d+)$')
  return at and score_ms(at) or at_now, token, owner, attempt
end

-- adopt_taken makes taken deliveries leases of the caller. It adds them to the answer: delivery, ms when it was taken, progress,
-- head of the record. It drops deliveries without a record. It returns how many of the list it processed,
-- because the answer may be full.
local function adopt_taken(deliveries, texts, most_bytes, answer)
  if #deliveries == 0 then return 0 end
  local ids, heads, bytes, n = {}, {}, 0, 0
  for i, delivery in ipairs(deliveries) do ids[i] = select(2, split(delivery)) end
  local records = sure('HMGET', MESSAGES, unpack(ids))
  for i in ipairs(deliveries) do
    local record = records[i]
    heads[i] = record and #record > DIGEST and head_of(record) or ''
    bytes = bytes + #heads[i]
    if bytes > most_bytes and i > 1 then break end
    n = i
  end
  local some = { unpack(deliveries, 1, n) }
  in_chunks('ZREM', TAKEN, some)
  local leases, rungs, at = {}, sure('HMGET', PROGRESS, unpack(some)), #answer
  for i, delivery in ipairs(some) do
    if heads[i] == '' then
      local name = lane_of(delivery)
      load_lanes({ name })
      lanes[name].flying = lanes[name].flying - 1
      count('in_flight', -1)
      removed_marks[#removed_marks + 1] = delivery
      drop_delivery(delivery, ids[i], records[i])
      leave_line(lanes[name], ids[i], records[i])
    else
      append_pair(leases, at_now, delivery)
      answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4] = delivery, (parse_token(texts[i])), rungs[i], heads[i]
      at = at + 4
    end
  end
  write_leases(leases)
  return n
end
