-- order: which delivery of an ordering key is next, and which deliveries end with their lane. It is put between common
-- and each script that ends deliveries or puts them in line. It takes no arguments of its own: ARGV[3..] is the
-- script's.
local CHAIN = 64 -- deliveries that one script ends because the one before them ended, so that it stays short

-- What the script ends, written by write_ends.
local ended = { done = {}, cancelled = {}, dead = {} }
local progress_entries, removed_marks = {}, {}
local function append_pair(list, score, value)
  local n = #list
  list[n + 1], list[n + 2] = score, value
end

-- push_ready puts a delivery at the tail of its lane's ready list.
local function push_ready(l, due, id)
  if sure('RPUSH', READY .. l.name, num(due) .. ':' .. id) == 1 then l.place = true end
  l.ready = nil
  l.waiting = l.waiting + 1
  count('ready', 1)
  sums.readied = true
end

-- ends_with_lane reports whether a delivery ends with its lane: its endpoint is disabled or deleted, or it was accepted before the
-- cut of a bare URL's lane.
-- record: the record if it was read already.
local function ends_with_lane(l, id, record)
  if lane_ends(l) then return true end
  if not l.limits.cut then return false end
  record = record or sure('HGET', MESSAGES, id)
  return record and #record > DIGEST and created_at(record) <= l.limits.cut or false
end

-- drop_delivery forgets a delivery whose message was removed by hand or by a repair. The delivery must not stop its lane and
-- must not stay. The digest names a body that lies apart, where it is left.
local function drop_delivery(delivery, id, record)
  -- unshelve takes it off its shelf. Only the message said which shelf of a tenant it is on in a queue: doctor takes it off
  -- that one. With the last entry goes that of :in. It names keys itself, and is in here, since a script has few locals.
  local function unshelve(lane)
    sure('ZREM', tag .. ':of:' .. lane, id)
    if call('EXISTS', tag .. ':of:' .. lane) == 1 then return end
    local owner = sure('HGET', tag .. ':owners', lane)
    if owner then
      sure('ZREM', tag .. ':tenant:' .. owner, lane)
      sure('HDEL', tag .. ':owners', lane)
    end
    sums.bare = sums.bare or {}
    sums.bare[lane] = true
  end

  if record then sure('HDEL', BODIES, body_of(id, record)) end
  sure('HDEL', PROGRESS, delivery)
  sure('HDEL', tag .. ':tokens', delivery)
  sure('ZREM', tag .. ':expiring', delivery)
  unshelve(sub(delivery, 1, -#id - 2))
  sure('DEL', HISTORY .. delivery)
  sure('HDEL', FAN, id)
end

-- end_dead ends a delivery as dead after so many attempts. write_ends writes it, and finish tells it to the caller.
local function end_dead(l, delivery, reason, attempts)
  append_pair(ended.dead, at_now, delivery)
  count('dead', 1)
  count_dead(l.name, reason, 1)
  add_to(sums.ends, 'dead ' .. reason, 1)
  sums.died[#sums.died + 1] = attempts .. ' ' .. reason .. ' ' .. delivery
end

-- end_dead_unattempted ends a delivery that may not be attempted any more: it has expired, or its lane was cut.
local function end_dead_unattempted(l, delivery, text, why)
  local a, b, d, s, _, _, more = parse_progress(text)
  end_dead(l, delivery, why, a)
  append_pair(progress_entries, delivery, progress_text(a, b, d, s, 0, why, more))
  log_line(delivery, 'dead', 0, 0, a, why)
end

-- end_with_lane ends a delivery of a disabled or deleted endpoint. attempts and status are of an attempt that was just made.
local function end_with_lane(l, delivery, text, attempts, status)
  local a, b, d, s, _, _, more = parse_progress(text)
  a, s = attempts or a, status or s
  if l.limits.held == 'x' then
    append_pair(ended.cancelled, at_now, delivery)
    count('cancelled', 1)
    if attempts then append_pair(progress_entries, delivery, progress_text(a, b, 0, s, 0, '-', more)) end
    log_line(delivery, 'cancelled', 0, 0, a, '-')
    return
  end
  end_dead(l, delivery, 'disabled', a)
  append_pair(progress_entries, delivery, progress_text(a, b, attempts and 0 or d, s, 0, 'disabled', more))
  log_line(delivery, 'dead', 0, 0, a, 'disabled')
end

-- line_of is the key of the line in which a delivery waits its turn, nil for none.
local function line_of(l, record)
  if l.limits.ordered then return '*' end
  local key = key_of(record)
  return key ~= NO_KEY and hex(key) or nil
end

-- set_ahead_of answers the set in which a delivery is not the first, nil where there is none.
local function set_ahead_of(l, id, record)
  if l.state.keys == 0 then return nil end
  for _, set in ipairs(sets_of(l, record)) do
    local rank = sure('ZRANK', set, id)
    if rank and rank > 0 then return set end
  end
  return nil
end

-- last_score is the score of the last in a line, false where the line is empty.
local last_scores = {}
local function last_score(l, key)
  local set = BEHIND .. l.name .. ':' .. key
  if last_scores[set] == nil then
    local tail = sure('ZREVRANGE', set, 0, 0, 'WITHSCORES')
    last_scores[set] = tail[2] and tonumber(tail[2]) or false
  end
  return last_scores[set]
end

-- join_line puts a delivery at the end of its line and reports whether it is the first.
local function join_line(l, key, id)
  local last = last_score(l, key)
  local score = last and math.max(now, last + 1) or now
  local set = BEHIND .. l.name .. ':' .. key
  last_scores[set] = score
  sure('ZADD', set, num(score), id)
  if last then return false end
  local s = writable(l)
  s.keys = s.keys + 1
  return true
end

-- release_next places the next of a set whose first ended. It drops a delivery without a record, and ends one in a disabled
-- or deleted lane. Then the one after it is next.
local chained = 0
local function release_next(l, set)
  while true do
    local id = sure('ZRANGE', set, 0, 0)[1]
    if not id then
      local s = writable(l)
      s.keys = math.max(0, s.keys - 1)
      return
    end
    local delivery = l.name .. ':' .. id
    local record, text = sure('HGET', MESSAGES, id), sure('HGET', PROGRESS, delivery)
    l.waiting = l.waiting - 1
    count('scheduled', -1)
    if not record or #record <= DIGEST then
      sure('ZREM', set, id)
      drop_delivery(delivery, id, record)
    elseif not ends_with_lane(l, id, record) then
      local due = text and now or deliver_at(record)
      if due <= now then
        push_ready(l, due, id)
      else
        sure('ZADD', DUE, num(due), delivery)
        l.waiting = l.waiting + 1
        count('scheduled', 1)
      end
      return
    elseif chained < CHAIN then
      chained = chained + 1
      sure('ZREM', set, id)
      end_with_lane(l, delivery, text)
    else
      sure('ZADD', DUE, now, delivery) -- move ends it and goes on with the line
      l.waiting = l.waiting + 1
      count('scheduled', 1)
      return
    end
  end
end

-- leave_line takes a delivery that ended out of its line and releases the next one. record: the record if it was read
-- already, false where there is none.
local function leave_line(l, id, record)
  if l.state.keys == 0 then return end
  if record == nil then record = sure('HGET', MESSAGES, id) end
  for _, set in ipairs(sets_of(l, record)) do
    local rank = sure('ZRANK', set, id)
    if rank then
      sure('ZREM', set, id)
      if rank == 0 then release_next(l, set) end
    end
  end
end

-- end_due_with_lane ends a delivery that waited for its time in a lane that takes no more.
local function end_due_with_lane(l, delivery, id, text)
  local record = sure('HGET', MESSAGES, id)
  l.waiting = l.waiting - 1
  count(waiting_status(text), -1)
  if record and #record > DIGEST then end_with_lane(l, delivery, text) else drop_delivery(delivery, id, record) end
  leave_line(l, id, record)
end

-- end_time is the ms of what ends now. It is not before what ended earlier, though the clock may have stepped back. So a
-- reader that goes by the time of the end passes over nothing. A time more than an hour ahead comes from a clock that
-- was wrong.
local function end_time()
  if sums.newest then return now end
  if sums.ends_at then return sums.ends_at end
  local at = now
  for _, key in ipairs({ DONE, CANCELLED, DEAD }) do
    local newest = sure('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2]
    newest = newest and floor(tonumber(newest) or 0) or 0
    if newest > at and newest <= now + 3600000 then at = newest end
  end
  sums.ends_at = at
  return at
end

-- end_marked ends a delivery by its mark, and notes it: a delivered one with the ms at which its success was noted. It
-- answers the status, which the caller counts.
local function end_marked(delivery, mark, attempts)
  local done = sub(mark, 1, 1) == 'd'
  removed_marks[#removed_marks + 1] = delivery
  append_pair(done and ended.done or ended.cancelled, at_now, delivery)
  local status = done and 'delivered' or 'cancelled'
  log_line(delivery, status, 0, 0, attempts, match(mark, '^d(%d+)$') or '-')
  return status
end

-- end_ready ends up to n deliveries at the head of a lane's ready list, a marked one as its mark says. Of a lane that is
-- cut it stops at the first that was accepted later. It answers how many it took.
local function end_ready(l, n)
  local taken, records, many = sure('LRANGE', READY .. l.name, 0, n - 1), {}, 0
  for i, element in ipairs(taken) do
    local _, id = split(element)
    local record = sure('HGET', MESSAGES, id)
    if record and #record > DIGEST and not ends_with_lane(l, id, record) then break end
    records[i], many = record, i
  end
  if many == 0 then return 0 end
  sure('LTRIM', READY .. l.name, many, -1)
  l.waiting, l.ready = l.waiting - many, nil
  count('ready', -many)
  for i = 1, many do
    local _, id = split(taken[i])
    local delivery = l.name .. ':' .. id
    local record, mark = records[i], sure('HGET', MARKS, delivery)
    if not record or #record <= DIGEST then
      if mark then removed_marks[#removed_marks + 1] = delivery end
      drop_delivery(delivery, id, record)
    elseif mark then
      count(end_marked(delivery, mark, (parse_progress(sure('HGET', PROGRESS, delivery)))), 1)
    else
      end_with_lane(l, delivery, sure('HGET', PROGRESS, delivery))
    end
    leave_line(l, id, record)
  end
  return many
end

-- is_suspect reports whether two holders of a delivery died without a settle between. Its number of deaths tells then how
-- its attempt has begun by the lease that it has (reap.lua).
local function is_suspect(text)
  if not text or not find(text, '^%d+ %d+ [^01]') then return false end
  local _, _, deaths = parse_progress(text)
  return deaths >= 2
end

-- postpone_suspect has a suspect wait that may not be leased now, since the caller has as many as it may. It waits from 0.5 to 3.5 s,
-- each for another time. So few come back at a time, and the fewer there are the longer it takes until one does.
local function postpone_suspect(l, delivery, text, i)
  l.flying, l.waiting = l.flying - 1, l.waiting + 1
  return_token(l)
  sure('ZADD', DUE, num(now + 500 + (micros + i * 997) % 3000), delivery)
  count(waiting_status(text), 1)
end

-- lease_ready takes deliveries from the heads of their ready lists, as many of each lane as given says. Those that end
-- instead do. It adds the others to the answer: delivery, due, progress, record. It answers the leases, as times and
-- names, how many had no record, and how many suspects have to wait. taken: names, dues, ids and owners, whose states say
-- by now that they are in flight. It also has suspects, how many of these may be leased (nil: any), and apart, the lanes
-- that have one already (nil: the lane does not matter).
local function lease_ready(taken, given, most_bytes, answer)
  local names, dues, ids, owners = taken.names, taken.dues, taken.ids, taken.owners
  local k = #names
  -- Nothing is taken before its record was read. A script that dies until then has changed nothing. Deliveries that are
  -- too much for one answer stay where they are.
  local records, bytes = call('HMGET', MESSAGES, unpack(ids)), 0
  for i = 1, k do bytes = bytes + #(records[i] or '') end
  while bytes > most_bytes and k > 1 do
    local l = owners[k]
    l.flying, l.waiting, l.ready, l.emptied = l.flying - 1, l.waiting + 1, l.ready + 1, false
    return_token(l)
    given[l], names[k], bytes, k = given[l] - 1, nil, bytes - #(records[k] or ''), k - 1
  end
  local texts, marks = read_fields(PROGRESS, names), read_fields(MARKS, names)
  for l, many in pairs(given) do
    if many > 0 then call('LTRIM', READY .. l.name, many, -1) end
  end
  local leases, lost, later, n = {}, 0, 0, #answer
  local suspects, apart = taken.suspects or k, taken.apart

  -- spared takes back what was counted for a delivery that gets no attempt.
  local function spared(i, l)
    l.flying = l.flying - 1
    return_token(l)
    leave_line(l, ids[i], records[i])
  end

  for i, delivery in ipairs(names) do
    local record, l, suspect = records[i], owners[i], is_suspect(texts[i])
    local expiry = record and #record > DIGEST and expires_at(record) or 0
    if not record or #record <= DIGEST then
      lost = lost + 1
      if marks[i] then removed_marks[#removed_marks + 1] = delivery end
      drop_delivery(delivery, ids[i], record)
      spared(i, l)
    elseif marks[i] then
      count(end_marked(delivery, marks[i], (parse_progress(texts[i]))), 1)
      spared(i, l)
    elseif expiry > 0 and expiry <= now or l.limits.cut and created_at(record) <= l.limits.cut then
      end_dead_unattempted(l, delivery, texts[i], expiry > 0 and expiry <= now and 'expired' or 'disabled')
      spared(i, l)
    elseif suspect and (suspects <= 0 or apart and apart[l.name]) then
      later = later + 1
      postpone_suspect(l, delivery, texts[i], i)
    else
      if suspect then
        suspects = suspects - 1
        if apart then apart[l.name] = true end
        local a, b, deaths, s, q, r, more = parse_progress(texts[i])
        append_pair(progress_entries, delivery, progress_text(a, b, deaths > 4 and 5 or 2, s, q, r, more)) -- it has not begun by this lease
      end
      leases[#leases + 1] = at_now
      leases[#leases + 1] = delivery
      answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = delivery, dues[i], texts[i] or '', record
      n = n + 4
    end
  end
  count('ready', -#names)
  count('in_flight', #leases / 2)
  return leases, lost, later
end

-- sums.conclude counts the ends of deliveries that belong to a job: it sent them last, as a + behind its number in :progress says.
-- It takes the + away, so that each is counted once. which: 1 they were delivered, 2 cancelled, 3 died, 4 are another's now.
-- It is no local, since schedule may have no more.
function sums.conclude(which, list)
  local jobs, texts, hash = {}, {}, tag .. ':jobs'
  for from = 1, #list, 1000 do
    local names = {}
    for i = from + 1, math.min(from + 999, #list), 2 do names[#names + 1] = list[i] end
    for i, text in ipairs(sure('HMGET', PROGRESS, unpack(names))) do
      local before, number, behind = match(text or '', '^(%d+ %d+ %d+ %d+ %d+ %S+ %d+ (%d+))%+(.*)$')
      if before then
        jobs[number] = (jobs[number] or 0) + 1
        append_pair(texts, names[i], before .. behind)
      end
    end
  end
  in_chunks('HSET', PROGRESS, texts)
  for number, n in pairs(jobs) do
    local field = number .. ' ends'
    local had = { match(sure('HGET', hash, field) or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)$') }
    for i = 1, 4 do had[i] = num((had[i] or 0) + (i == which and n or 0)) end
    sure('HSET', hash, field, table.concat(had, ' '))
  end
end

-- write_ends writes the ends. A script calls it before finish, and before it asks for a delivery that it may have ended
-- itself.
local function write_ends()
  if #ended.cancelled > 0 then add_to(sums.ends, 'cancelled -', #ended.cancelled / 2) end
  for _, list in ipairs({ ended.done, ended.cancelled, ended.dead }) do
    if #list > 0 and end_time() > now then
      for i = 1, #list, 2 do list[i] = num(end_time()) end
    end
  end
  if #ended.done + #ended.cancelled + #ended.dead > 0 then
    if sums.leased == nil then
      sums.leased = call('EXISTS', tag .. ':tokens', tag .. ':expiring', tag .. ':jobs') > 0 -- mostly none: then that is one call
      sums.timed = sums.leased and sure('ZCARD', tag .. ':expiring') > 0
      sums.sent = sums.leased and now < (tonumber(sure('HGET', tag .. ':jobs', 'sent') or 0) or 0) + 86400000 -- a job counts for a day
      sums.leased = sums.leased and call('HLEN', tag .. ':tokens') > 0
    end
    local over = {}
    for _, list in ipairs((sums.leased or sums.timed) and { ended.done, ended.cancelled, ended.dead } or NONE) do
      for i = 2, #list, 2 do over[#over + 1] = list[i] end
    end
    if sums.leased then in_chunks('HDEL', tag .. ':tokens', over) end -- the last lease of what ended
    if sums.timed then in_chunks('ZREM', tag .. ':expiring', over) end
  end
  in_chunks('ZADD', DONE, ended.done)
  in_chunks('ZADD', CANCELLED, ended.cancelled)
  in_chunks('ZADD', DEAD, ended.dead)
  in_chunks('HSET', PROGRESS, progress_entries)
  in_chunks('HDEL', MARKS, removed_marks)
  for i, list in ipairs(sums.sent and { ended.done, ended.cancelled, ended.dead } or NONE) do sums.conclude(i, list) end
  ended, progress_entries, removed_marks = { done = {}, cancelled = {}, dead = {} }, {}, {}
end
