-- order: which delivery of an ordering key is next. It is put behind ends, before each script that ends deliveries or puts them
-- in line. It takes no arguments of its own: ARGV[3..] is the script's.
-- needs: common(deliver_at, hex, key_of, now, num, sets_of, split, sure), lane_state(writable),
--   progress(parse_progress, waiting_status), sums(count, sums), ends(drop_delivery, end_marked, end_with_lane,
--   ends_with_lane, removed_marks)
--
-- Moves of a delivery from place to place, for each script. Tests hold it: the model of redisqtest makes no other move, and each
-- of these except the moves of scripts with a *, which it does not call. any: each script that ends the first delivery of a line,
-- which releases the next one. - : the delivery is not made yet, or is forgotten. Line: the verdict and the reason of the line
-- that :attempts gets. With an archive, schedule also logs the deliveries that it makes.
--
--   from       to         script        if                                                        line
--   -          due        schedule      it is due later                                           none
--   -          ready      schedule      it is due                                                 none
--   -          leased     schedule      it is due, it may be attempted, and a permit is free      none
--   -          behind     schedule      another delivery of its ordering key is not ended         none
--   -          dead       schedule      its endpoint is disabled, or its lane is full             dead disabled, dead overflow
--   -          cancelled  schedule      its endpoint is deleted                                   cancelled
--   due        ready      move          its time has come                                         none
--   due        dead       move          its message has expired, or its endpoint is disabled      dead expired, dead disabled
--   due        cancelled  move          its endpoint is deleted                                   cancelled
--   ready      dead       move          its message has expired, or its endpoint is disabled      dead expired, dead disabled
--   ready      cancelled  move          it is marked as cancelled, or its endpoint is deleted     cancelled
--   ready      done       move*         deep, marked as delivered, and its endpoint is disabled   delivered
--   behind     dead       move          its message has expired                                   dead expired
--   behind     cancelled  move          its message has expired, and its endpoint is deleted      cancelled
--   taken      leased     move          the lease of its consumer has ended                       none
--   ready      leased     claim         its lane has its turn                                     none
--   ready      due        claim         it is a suspect, and the caller may lease no more         none
--   ready      done       claim*        it is marked as delivered, and deep in a long list         delivered
--   ready      cancelled  claim*        it is marked as cancelled, and deep in a long list         cancelled
--   ready      dead       claim         its message has expired                                   dead expired
--   ready      leased     take          a consumer takes it, and its attempt is the instance's    none
--   ready      taken      take          a consumer takes it                                       none
--   ready      due        take          it is a suspect, and the caller may lease no more         none
--   ready      done       take*         it is marked as delivered, and deep in a long list         delivered
--   ready      cancelled  take*         it is marked as cancelled, and deep in a long list         cancelled
--   ready      dead       take          its message has expired                                   dead expired
--   taken      leased     adopt         its consumer reports an outcome                           none
--   leased     done       settle        the attempt succeeded, or a late one had                  d, delivered
--   leased     due        settle        the attempt failed, and the ladder has a next rung        r
--                                       or no key opens the headers of its message                b
--                                       or its handler lets it wait                               z
--   leased     ready      settle        it is handed back                                         b
--   leased     dead       settle        the attempt failed for good, or its endpoint is disabled  x, dead disabled, dead expired
--   leased     cancelled  settle        it is marked as cancelled, or its endpoint is deleted     cancelled
--   due        done       settle        a late attempt succeeded                                  d
--   behind     done       settle        a late attempt succeeded                                  d
--   ready      done       settle        the same, and it is near the head of its list             d
--   leased     ready      reap          its instance died                                         none
--   leased     done       reap          it is marked as delivered                                 delivered
--   leased     dead       reap          three holders died of it, or its endpoint is disabled     dead poison, dead disabled
--   leased     cancelled  reap          it is marked as cancelled, or its endpoint is deleted     cancelled
--   due        cancelled  cancel        somebody cancels it                                       cancelled
--   ready      cancelled  cancel        somebody cancels it, and it is found in its list          cancelled
--   behind     cancelled  cancel        somebody cancels it                                       cancelled
--   ready      due        reschedule    somebody asks for another time                            none
--   due        ready      retry         somebody asks for an attempt                              resent
--   done       ready      retry         somebody sends it again                                   resent anew
--   done       behind     retry         the same, and another of its ordering key is not ended    resent anew
--   dead       ready      retry         somebody sends it again                                   resent anew
--   dead       behind     retry         the same, and another of its ordering key is not ended    resent anew
--   cancelled  ready      retry         somebody sends it again                                   resent anew
--   cancelled  behind     retry         the same, and another of its ordering key is not ended    resent anew
--   due        dead       sweep         its endpoint is disabled                                  dead disabled
--   due        cancelled  sweep         its endpoint is deleted                                   cancelled
--   ready      dead       sweep*        its lane was cut                                          dead disabled
--   ready      cancelled  sweep*        it is marked as cancelled, and deep in a long list         cancelled
--   ready      done       sweep*        it is marked as delivered                                 delivered
--   behind     ready      any           it is the first now, and due                              none
--   behind     due        any           it is the first now, and due later                        none
--   behind     dead       any           it is the first now, and its endpoint is disabled         dead disabled
--   behind     cancelled  any           it is the first now, and its endpoint is deleted          cancelled
--   done       -          trim          it is too old, or there are too many                      none
--   cancelled  -          trim          it is too old, or there are too many                      none
--   dead       -          trim          it is too old, or there are too many                      none
--   dead       -          purge*        a job removes it                                          forgotten
--   done       -          erase*        a command removes it                                      forgotten
--   cancelled  -          erase*        a command removes it                                      forgotten
--   dead       -          erase*        a command removes it                                      forgotten
--   -          due        restore_put*  an archive has it, and it is due later                    restored
--   -          ready      restore_put*  an archive has it, and it is due                          restored
--   -          behind     restore_put*  an archive has it, and another of its key is not ended    restored
--   -          dead       restore_put*  an archive has it as dead, or its endpoint is disabled    dead disabled
--   -          cancelled  restore_put*  an archive has it, and its endpoint is deleted            cancelled

local CHAIN = 64 -- deliveries that one script ends because the delivery before them ended, so that the script stays short

-- push_ready puts a delivery at the tail of the ready list of its lane.
local function push_ready(l, due, id)
  if sure('RPUSH', READY .. l.name, num(due) .. ':' .. id) == 1 then l.place = true end
  l.ready = nil
  l.waiting = l.waiting + 1
  count('ready', 1)
  sums.readied = true
end

-- line_of returns the key of the line in which a delivery waits its turn, nil for none.
local function line_of(l, record)
  if l.limits.ordered then return '*' end
  local key = key_of(record)
  return key ~= NO_KEY and hex(key) or nil
end

-- set_ahead_of returns the set in which a delivery is not the first, nil if there is none.
local function set_ahead_of(l, id, record)
  if l.state.keys == 0 then return nil end
  for _, set in ipairs(sets_of(l, record)) do
    local rank = sure('ZRANK', set, id)
    if rank and rank > 0 then return set end
  end
  return nil
end

-- last_score returns the score of the last delivery in a line, false if the line is empty.
local last_scores = {}
local function last_score(l, key) -- rare
  local set = BEHIND .. l.name .. ':' .. key
  if last_scores[set] == nil then
    local tail = sure('ZREVRANGE', set, 0, 0, 'WITHSCORES')
    last_scores[set] = tail[2] and tonumber(tail[2]) or false
  end
  return last_scores[set]
end

-- join_line puts a delivery at the end of its line and reports whether it is the first.
local function join_line(l, key, id) -- rare
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

-- release_next places the next delivery of a set after the first one ended. It drops a delivery without a record, and ends a
-- delivery of a disabled or deleted endpoint. Then the delivery after it is next.
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
      sure('ZADD', DUE, now, delivery) -- move ends it and continues the line
      l.waiting = l.waiting + 1
      count('scheduled', 1)
      return
    end
  end
end

-- leave_line takes an ended delivery out of its line and releases the next one. record: nil if it was not read yet, false if
-- there is none.
local function leave_line(l, id, record) -- rare
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

-- end_due_with_lane ends a delivery that waited for its time in a lane whose deliveries end.
local function end_due_with_lane(l, delivery, id, text) -- rare
  local record = sure('HGET', MESSAGES, id)
  l.waiting = l.waiting - 1
  count(waiting_status(text), -1)
  if record and #record > DIGEST then end_with_lane(l, delivery, text) else drop_delivery(delivery, id, record) end
  leave_line(l, id, record)
end

-- end_ready ends up to n deliveries at the head of the ready list of a lane, a marked one as its mark says. In a cut lane it
-- stops at the first delivery that was accepted later. It returns how many it ended.
local function end_ready(l, n) -- rare
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
