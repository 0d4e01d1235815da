-- ends: how deliveries end. It is put before order, and before all scripts that end a delivery. It takes no arguments of its
-- own: ARGV[3..] is the script's.
-- needs: common(at_now, body_of, call, created_at, end_time, in_chunks, match, now, num, sub, sure), slots(lane_ends),
--   progress(parse_progress, progress_text, sending_job), sums(add_to, append_pair, count, count_dead, log_line, sums)

-- The ends of the script, which write_ends writes: scores and deliveries; texts of :progress; deliveries without a mark now.
local ended = { done = {}, cancelled = {}, dead = {} }
local progress_entries, removed_marks = {}, {}

-- ends_with_lane reports whether a delivery ends with its lane: its endpoint is disabled or deleted, or the delivery was
-- accepted before the cut of the lane of a bare URL. record: nil if it was not read yet.
local function ends_with_lane(l, id, record)
  if lane_ends(l) then return true end
  if not l.limits.cut then return false end
  record = record or sure('HGET', MESSAGES, id)
  return record and #record > DIGEST and created_at(record) <= l.limits.cut or false
end

-- drop_delivery removes a delivery without a message, which somebody or a repair removed. The delivery must not stop its lane
-- and must not stay. If only the digest is left, it names a body in :bodies.
local function drop_delivery(delivery, id, record) -- rare
  -- unshelve takes the delivery off the shelf of its lane. Only the message names the shelf of its tenant in a queue, so
  -- doctor takes it off that one. With the last delivery goes the lane's text of :in.
  local function unshelve(lane)
    sure('ZREM', SHELF .. lane, id)
    if call('EXISTS', SHELF .. lane) == 1 then return end
    local owner = sure('HGET', OWNERS, lane)
    if owner then
      sure('ZREM', TENANT .. owner, lane)
      sure('HDEL', OWNERS, lane)
    end
    sums.bare = sums.bare or {}
    sums.bare[lane] = true
  end

  if record then sure('HDEL', BODIES, body_of(id, record)) end
  sure('HDEL', PROGRESS, delivery)
  sure('HDEL', TOKENS, delivery)
  sure('ZREM', EXPIRING, delivery)
  sure('ZREM', UNOPENED, delivery)
  unshelve(sub(delivery, 1, -#id - 2))
  sure('DEL', HISTORY .. delivery)
  sure('HDEL', FAN, id)
end

-- end_dead ends a delivery as dead after a number of attempts. write_ends writes it, and finish returns it to the caller.
local function end_dead(l, delivery, reason, attempts)
  append_pair(ended.dead, at_now, delivery)
  count('dead', 1)
  count_dead(l.name, reason, 1)
  add_to(sums.ends, 'dead ' .. reason, 1)
  sums.died[#sums.died + 1] = attempts .. ' ' .. reason .. ' ' .. delivery
end

-- end_dead_unattempted ends a delivery as dead that may not be attempted again: it has expired, or its lane was cut.
local function end_dead_unattempted(l, delivery, text, why) -- rare
  local a, b, d, s, _, _, more = parse_progress(text)
  end_dead(l, delivery, why, a)
  append_pair(progress_entries, delivery, progress_text(a, b, d, s, 0, why, more))
  log_line(delivery, 'dead', 0, 0, a, why)
end

-- end_with_lane ends a delivery of a disabled or deleted endpoint. attempts and status: of an attempt that was just made.
local function end_with_lane(l, delivery, text, attempts, status) -- rare
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

-- end_marked ends a delivery by its mark, and logs it: a delivered one with the ms at which its success was logged. It returns
-- the status, which the caller counts.
local function end_marked(delivery, mark, attempts) -- rare
  local done = sub(mark, 1, 1) == 'd'
  removed_marks[#removed_marks + 1] = delivery
  append_pair(done and ended.done or ended.cancelled, at_now, delivery)
  local status = done and 'delivered' or 'cancelled'
  log_line(delivery, status, 0, 0, attempts, match(mark, '^d(%d+)$') or '-')
  return status
end

-- count_job_ends counts the ends of deliveries that a job sent last, once each, because they leave the job then. which: 1 they
-- were delivered, 2 cancelled, 3 they died, 4 another job sent them.
local function count_job_ends(which, list) -- rare
  local jobs, texts = {}, {}
  for first = 1, #list, 1000 do
    local names = {}
    for i = first + 1, math.min(first + 999, #list), 2 do names[#names + 1] = list[i] end
    for i, text in ipairs(sure('HMGET', PROGRESS, unpack(names))) do
      local number, left = sending_job(text)
      if number then
        jobs[number] = (jobs[number] or 0) + 1
        append_pair(texts, names[i], left)
      end
    end
  end
  in_chunks('HSET', PROGRESS, texts)
  for number, n in pairs(jobs) do
    local field = number .. ' ends'
    local had = { match(sure('HGET', JOBS, field) or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)$') }
    for i = 1, 4 do had[i] = num((had[i] or 0) + (i == which and n or 0)) end
    sure('HSET', JOBS, field, table.concat(had, ' '))
  end
end

-- write_ends writes the ends. A script calls it before finish, and before it reads a delivery that it may have ended.
local function write_ends()
  local values = #ended.done + #ended.cancelled + #ended.dead
  if values + #progress_entries + #removed_marks == 0 then return end
  local lists = { ended.done, ended.cancelled, ended.dead }
  if #ended.cancelled > 0 then add_to(sums.ends, 'cancelled -', #ended.cancelled / 2) end
  for _, list in ipairs(lists) do
    if #list > 0 and end_time() > now then
      for i = 1, #list, 2 do list[i] = num(end_time()) .. sub(list[i], #at_now + 1) end -- with the status behind the ms
    end
  end
  if values > 0 then
    if sums.leased == nil then
      sums.leased = call('EXISTS', TOKENS, EXPIRING, JOBS, UNOPENED) > 0 -- mostly none exists, so this is one call
      sums.timed = sums.leased and sure('ZCARD', EXPIRING) > 0
      sums.unopened = sums.leased and sure('ZCARD', UNOPENED) > 0
      sums.sent = sums.leased and now < (tonumber(sure('HGET', JOBS, 'sent') or 0) or 0) + 86400000 -- a job counts the ends of one day
      sums.leased = sums.leased and call('HLEN', TOKENS) > 0
    end
    local over = {}
    for _, list in ipairs((sums.leased or sums.timed or sums.unopened) and lists or NONE) do
      for i = 2, #list, 2 do over[#over + 1] = list[i] end
    end
    if sums.leased then in_chunks('HDEL', TOKENS, over) end -- the last leases of the ended deliveries
    if sums.timed then in_chunks('ZREM', EXPIRING, over) end
    if sums.unopened then in_chunks('ZREM', UNOPENED, over) end
  end
  in_chunks('ZADD', DONE, ended.done)
  in_chunks('ZADD', CANCELLED, ended.cancelled)
  in_chunks('ZADD', DEAD, ended.dead)
  in_chunks('HSET', PROGRESS, progress_entries)
  in_chunks('HDEL', MARKS, removed_marks)
  for i, list in ipairs(sums.sent and lists or NONE) do count_job_ends(i, list) end
  ended, progress_entries, removed_marks = { done = {}, cancelled = {}, dead = {} }, {}, {}
end
