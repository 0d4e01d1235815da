-- reap: put the leases of a dead instance back to the head of their lanes. It is repeated until none is left. A delivery
-- that was leased at two deaths without a settle between is a suspect. It dies with the next holder that had begun its
-- attempt, and nothing else that may have killed it: then it probably killed them all. If other code of the caller ran
-- beside it, it is attempted alone from then on. Other deaths say nothing more of it.
-- needs: common(call, first_write, in_chunks, now, score_ms, split, sure), lane_state(lanes, load_lanes),
--   progress(parse_progress, progress_text), sums(append_pair, count, log_line, sums), finish(finish), ends(end_dead,
--   end_marked, end_with_lane, ends_with_lane, progress_entries, write_ends), order(leave_line)
--
-- ARGV[3] dead  the instance; fenced first, so that it gets no lease any more
-- ARGV[4] most  most deliveries to take
-- returns now, due, weight, number taken, number left
local SUSPECT, BEGUN = 2, 3 -- deaths of a suspect, and of one whose attempt has begun by its lease
local BESIDE, ALONE, BEGUN_ALONE = 4, 5, 6 -- it has begun beside others; it has to be attempted alone; it has begun so
local FENCE_KEPT = 7 * 24 * 3600 * 1000 -- ms; no process that was stopped goes on after a week

local gone, most_taken = ARGV[3], tonumber(ARGV[4])
first_write()
sure('ZREMRANGEBYSCORE', FENCED, '-inf', now - FENCE_KEPT)
call('ZADD', FENCED, now, gone)
-- Newest first: each goes to the head, so the oldest is the first again.
local held = call('ZREVRANGE', LEASES .. gone, 0, most_taken - 1, 'WITHSCORES')
local deliveries, names = {}, {}
for i = 1, #held, 2 do
  deliveries[#deliveries + 1] = held[i]
  names[#names + 1] = (split(held[i]))
end
if #deliveries == 0 then
  local t, d, w = finish()
  return { t, d, w, 0, 0 }
end
load_lanes(names)
local texts = call('HMGET', PROGRESS, unpack(deliveries))
local marks = call('HMGET', MARKS, unpack(deliveries))
in_chunks('ZREM', LEASES .. gone, deliveries)

for i, delivery in ipairs(deliveries) do
  local lane, id = split(delivery)
  local l = lanes[lane]
  local attempts, base, deaths, status, asked, _, more = parse_progress(texts[i])
  local begun = deaths == BEGUN or deaths == BEGUN_ALONE
  if begun then
    deaths = deaths == BEGUN and 3 or 4
  else
    deaths = (deaths == BESIDE or deaths == ALONE) and ALONE or math.min(deaths + 1, SUSPECT)
  end
  l.flying = l.flying - 1
  count('in_flight', -1)
  local over = true
  if marks[i] then
    count(end_marked(delivery, marks[i], attempts), 1)
  elseif begun then
    -- Each of the dead holders may have called the receiver, and none of them got an answer.
    attempts = attempts + deaths
    end_dead(l, delivery, 'poison', attempts)
    append_pair(progress_entries, delivery, progress_text(attempts, base, deaths, 0, 0, 'poison', more))
    log_line(delivery, 'dead', 0, 0, attempts, 'poison')
  elseif ends_with_lane(l, id) then
    end_with_lane(l, delivery, progress_text(attempts, base, deaths, status, 0, '-', more))
  else
    over = false
    append_pair(progress_entries, delivery, progress_text(attempts, base, deaths, status, asked, '-', more))
    if sure('LPUSH', READY .. lane, score_ms(held[2 * i]) .. ':' .. id) == 1 then l.place = true end
    l.waiting = l.waiting + 1
    count('ready', 1)
    sums.readied = true
  end
  if over then leave_line(l, id) end
end
write_ends()
local t, d, w = finish()
return { t, d, w, #deliveries, call('ZCARD', LEASES .. gone) }
