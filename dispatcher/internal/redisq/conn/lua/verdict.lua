-- verdict: the change that settle makes to a delivery by the verdict of an outcome. It is put behind outcome. i: the place of the
-- outcome in ARGV, as settle has it.
-- needs: common(at_now, by, call, ceil_now, end_time, expires_at, find, format, marked_delivered, match, now, num,
--   split, sub, sure), lane_state(ready_length), progress(parse_progress, progress_text, waiting_status, with_beside),
--   sums(append_pair, count, log_line), ends(end_dead, end_marked, end_with_lane, ended, ends_with_lane,
--   progress_entries, removed_marks, write_ends), order(set_ahead_of), outcome(BLAME, EXCERPT, META, NUMBER, REASON,
--   STATUS, VERDICT, WAIT, learn, record_failure, record_success)

-- Lists that settle writes: due times and deliveries; the places in ARGV of the outcomes that are handed back; deliveries and
-- their marks; deliveries that are not due any more.
local rung_dues, fronts, late_marks, not_due = {}, {}, {}, {}
local unopened, attempted = {}, {} -- deliveries that wait for a key; deliveries that were attempted, and so wait for none
local written = 0 -- successes that settle_late has written already

-- length_without_excerpt returns the length of an entry of :history up to its excerpt, nil if it is malformed.
local function length_without_excerpt(entry)
  local head, length = match(entry, '^(%d+ (%d+) )')
  return head and #head + length
end

-- keep_success keeps the first success in a history that is cut: if the oldest attempt was a success, it replaces the next
-- oldest attempt. So a reader always sees the success, however often the delivery is sent again.
local function keep_success(key)
  local oldest = call('LINDEX', key, -1)
  local length = length_without_excerpt(oldest)
  if length and find(sub(oldest, 1, length), '"v":1[,}]') then call('LSET', key, -2, oldest) end
end

-- remember adds an attempt to the history of its delivery. due: ms of the next attempt, 0 for none.
local function remember(i, due)
  local KEPT, WITH_EXCERPT = 32, 3 -- attempts in a history; the newest attempts that keep the excerpt of the response
  local meta, excerpt = ARGV[i + META], ARGV[i + EXCERPT]
  if meta == '' then return end
  local key = HISTORY .. ARGV[i]
  local n = sure('LPUSH', key, num(due) .. ' ' .. #meta .. ' ' .. meta .. excerpt)
  if n > WITH_EXCERPT then
    local old = call('LINDEX', key, WITH_EXCERPT)
    local length = length_without_excerpt(old)
    if length and #old > length then call('LSET', key, WITH_EXCERPT, sub(old, 1, length)) end
  end
  if n > KEPT then
    keep_success(key)
    call('LTRIM', key, 0, KEPT - 1)
  end
end

-- waits_until returns the due time after a failed attempt, and whether the message will have expired by then. If the attempt
-- interrupted a wait because a person asked for it, the due time stays. If that has passed, the wait of the rung begins again,
-- and a longer wait that the receiver asked for wins. For other attempts the caller has checked the expiry.
local function waits_until(i, text)
  local _, _, _, _, asked = parse_progress(text)
  local due = ceil_now + tonumber(ARGV[i + WAIT])
  if asked <= 1 then return due, false end
  due = math.max(asked > now and asked or due, ceil_now + tonumber(match(ARGV[i + BLAME], '%d+')))
  local _, id = split(ARGV[i])
  local record = sure('HGET', MESSAGES, id)
  local expiry = record and #record > DIGEST and expires_at(record) or 0
  return due, expiry > 0 and due >= expiry
end

-- write_progress writes the progress of a delivery, and returns its status if it waits then. A first attempt with the response
-- 200 needs no entry. A failed attempt that a person asked for while the delivery waited does not count on the ladder.
local function write_progress(i, text, reason)
  if ARGV[i + NUMBER] == '0' and reason == '-' then return waiting_status(text) end
  if not text and ARGV[i + VERDICT] == 'd' and ARGV[i + STATUS] == '200' and ARGV[i + NUMBER] == '1' then return end
  local attempts, base, _, _, asked, _, more, beside = parse_progress(text)
  attempts = math.max(attempts, tonumber(ARGV[i + NUMBER]))
  if asked > 1 and ARGV[i + VERDICT] == 'r' then
    beside = beside + 1
    more = with_beside(more, beside)
  end
  append_pair(progress_entries, ARGV[i], progress_text(attempts, base, 0, tonumber(ARGV[i + STATUS]), 0, reason, more))
  return attempts - beside > base and 'retrying' or 'scheduled'
end

-- end_by_mark ends a delivery as its mark says, whatever the outcome of the attempt. A success ends a cancelled delivery, and
-- needs no further line in the log. A delivery that a late success ended keeps the line of that success.
local function end_by_mark(mark, i, text)
  local delivery, verdict = ARGV[i], ARGV[i + VERDICT]
  local first = verdict == 'd' and not marked_delivered(mark)
  if first then
    append_pair(ended.done, at_now, delivery)
    removed_marks[#removed_marks + 1] = delivery
  else
    local status = end_marked(delivery, mark, math.max((parse_progress(text)), tonumber(ARGV[i + NUMBER])))
    if status == 'cancelled' then count(status, 1) end -- settle counts the delivered ones
  end
  if verdict ~= 'b' and verdict ~= 'w' then
    write_progress(i, text, '-')
    remember(i, 0)
  end
  return first and '1' or '4', true
end

-- end_waiting_with_lane ends a delivery that would wait again in the lane of a disabled or deleted endpoint.
local function end_waiting_with_lane(i, l, text)
  if ARGV[i + VERDICT] == 'b' or ARGV[i + NUMBER] == '0' then
    end_with_lane(l, ARGV[i], text)
  else
    local attempts = parse_progress(text)
    end_with_lane(l, ARGV[i], text, math.max(attempts, tonumber(ARGV[i + NUMBER])), tonumber(ARGV[i + STATUS]))
    remember(i, 0)
  end
  return '4'
end

-- settle_leased ends a delivery, or lets it wait. It returns the code, whether the delivery ended, and the due time if it waits
-- for its next rung.
local function settle_leased(i, l, text, mark) -- rare
  local delivery, verdict = ARGV[i], ARGV[i + VERDICT]
  l.flying = l.flying - 1
  learn(i, l)
  if verdict == 'd' then record_success(l) else record_failure(i, l) end
  if mark then return end_by_mark(mark, i, text) end
  if verdict == 'd' then
    append_pair(ended.done, at_now, delivery)
    write_progress(i, text, '-')
    remember(i, 0)
    return '1', true
  end
  if verdict ~= 'x' and ends_with_lane(l, sub(delivery, #l.name + 2)) then return end_waiting_with_lane(i, l, text), true end
  if verdict == 'b' then
    fronts[#fronts + 1] = i
    l.waiting = l.waiting + 1
    return '1', false
  end
  if verdict == 'w' then
    count(waiting_status(text), 1)
    append_pair(rung_dues, num(ceil_now + tonumber(ARGV[i + WAIT])), delivery)
    unopened[#unopened + 1] = delivery
    l.waiting = l.waiting + 1
    return '1', false
  end
  if verdict == 'z' then -- its handler returned, so its instance did not die of it, and whoever asked for the attempt had it
    local a, b, _, s, _, _, more = parse_progress(text)
    local rest, n = match(more, '^(.-) z(%d+)$')
    append_pair(progress_entries, delivery, progress_text(a, b, 0, s, 0, '-', format('%s z%d', rest or more, (tonumber(n) or 0) + 1)))
    count(waiting_status(text), 1)
    append_pair(rung_dues, num(ceil_now + tonumber(ARGV[i + WAIT])), delivery)
    attempted[#attempted + 1] = delivery
    l.waiting = l.waiting + 1
    return '1', false
  end
  local due, over
  if verdict == 'r' then due, over = waits_until(i, text) end
  if due and not over then
    count(write_progress(i, text, '-'), 1)
    append_pair(rung_dues, num(due), delivery)
    attempted[#attempted + 1] = delivery
    l.waiting = l.waiting + 1
    remember(i, due)
    return '1', false, due
  end
  local reason = over and 'expired' or ARGV[i + REASON]
  write_progress(i, text, reason)
  end_dead(l, delivery, reason, math.max((parse_progress(text)), tonumber(ARGV[i + NUMBER])))
  remember(i, 0)
  if not over then return '1', true end
  log_line(delivery, 'dead', 0, 0, tonumber(ARGV[i + NUMBER]), 'expired')
  return '4', true
end

-- died_of_it reports whether a delivery died of this outcome already. An instance that was declared dead has settled nothing
-- since, so a later death belongs to the instance that took over.
local function died_of_it(i, text)
  local attempts, _, _, _, _, reason = parse_progress(text)
  local number = tonumber(ARGV[i + NUMBER])
  if reason ~= ARGV[i + REASON] or number > 0 and number ~= attempts then return false end
  local died, fenced = sure('ZSCORE', DEAD, ARGV[i]), sure('ZSCORE', FENCED, by)
  return died and (not fenced or tonumber(died) < tonumber(fenced))
end

-- take_from_head takes a delivery out of the ready list of its lane, and reports whether it was found. A takeover puts deliveries
-- at the head, so no more is read. A mark alone would leave the delivery counted as ready for as long as its lane is paused.
local function take_from_head(l, id) -- rare
  local AT_HEAD = 1024 -- more than the deliveries of a lane in flight, with the usual limit, at eight instances
  if not l.head then
    l.head = {} -- element by id
    for _, element in ipairs(sure('LRANGE', READY .. l.name, 0, AT_HEAD - 1)) do l.head[select(2, split(element))] = element end
  end
  if not l.head[id] then return false end
  sure('LREM', READY .. l.name, 1, l.head[id])
  l.head[id], l.ready = nil, nil
  if ready_length(l) == 0 then l.emptied = true end
  return true
end

-- settle_late settles an outcome without the lease: only a success counts, if record says that the delivery is kept.
local function settle_late(i, l, text, record) -- rare
  local delivery = ARGV[i]
  if ARGV[i + VERDICT] == 'x' and died_of_it(i, text) then return '5', false end
  local _, id = split(delivery)
  if not record then return '2', false end
  written = written + #ended.done / 2
  write_ends()
  if sure('ZSCORE', DONE, delivery) or sure('ZSCORE', CANCELLED, delivery) or sure('ZSCORE', DEAD, delivery) then
    return '2', false
  end
  write_progress(i, text, '-')
  remember(i, 0)
  local due = call('ZSCORE', DUE, delivery)
  local behind = not due and set_ahead_of(l, id, record)
  local ready = not due and not behind and take_from_head(l, id)
  if not due and not behind and not ready then
    -- It is leased elsewhere, or ready and deep in a long list: the next script that reads it ends it.
    late_marks[#late_marks + 1] = delivery
    late_marks[#late_marks + 1] = 'd' .. num(end_time()) -- not before the line of this success
    return '3', false
  end
  if due then not_due[#not_due + 1] = delivery end
  if ready then removed_marks[#removed_marks + 1] = delivery end -- it may be marked as cancelled
  l.waiting = l.waiting - 1
  count(ready and 'ready' or due and waiting_status(text) or 'scheduled', -1)
  append_pair(ended.done, at_now, delivery)
  return '3', true
end
