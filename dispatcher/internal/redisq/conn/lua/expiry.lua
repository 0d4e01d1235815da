-- expiry: deliveries end when their message expires, wherever they wait. It is put behind order, in move behind reach, before
-- the scripts that let them wait or end them. It takes no arguments of its own: ARGV[3..] is the script's.
-- needs: common(created_at, deliver_at, expires_at, find, floor, format, in_chunks, lane_of, micros, now, num, split,
--   sure), lane_state(lanes, load_lanes), progress(parse_progress, waiting_status), sums(append_pair, count, sums),
--   ends(end_dead_unattempted, end_marked, end_with_lane, ended, ends_with_lane), order(leave_line, set_ahead_of),
--   reach(SEARCHED, close_lists, elements_read, reach_of, search_spent, take_out)

-- watch_expiry notes that a delivery ends when its message expires, if it does. set_expiry writes that.
local function watch_expiry(delivery, record) -- rare
  if #record > DIGEST and expires_at(record) > 0 then append_pair(sums.watched, num(expires_at(record)), delivery) end
end

-- set_expiry writes to :parked when a mover has to read :expiring, under a name that no lane has. It reports whether that
-- changed. pause: of the mover itself, ms without another call. Without a pause, a time that is early enough stays, because no
-- other script may end the pause of the mover. The entry is deleted if nothing expires any more.
local function set_expiry(pause) -- rare
  local EXPIRY, SOON = '~expiring', 1000
  in_chunks('ZADD', EXPIRING, sums.watched)
  sums.watched = {}
  local head = sure('ZRANGE', EXPIRING, '0', '0', 'WITHSCORES')[2]
  local first, told = head and math.max(1, math.ceil(tonumber(head))) or 0, tonumber(sure('ZSCORE', PARKED, EXPIRY) or 0)
  if pause then
    first = first > 0 and math.max(first, now + pause) or 0
  elseif first > 0 and told > 0 and told <= (first > now and first or now + SOON) then
    return false
  end
  if first == told then return false end
  if first == 0 then sure('ZREM', PARKED, EXPIRY) else sure('ZADD', PARKED, num(first), EXPIRY) end
  sums.parked = true
  return true
end

-- check_expiry_later sets the time of the next check of a delivery that could not be ended: it is in flight, or too deep in
-- its list to be found. The half of a ms marks it as expired. The more deliveries expire, the later is the check, because it
-- may be a long search.
local function check_expiry_later(delivery)
  sure('ZADD', EXPIRING, format('%d.5', now + math.min(2000 + 3 * sure('ZCARD', EXPIRING), 600000)), delivery)
end

-- end_at_expiry ends a delivery that has expired, if it waits.
local function end_at_expiry(delivery)
  local name, id = split(delivery)
  local l, record, text = lanes[name], sure('HGET', MESSAGES, id), sure('HGET', PROGRESS, delivery)
  local at, status = record and #record > DIGEST and expires_at(record) or 0, nil
  if at > now then return sure('ZADD', EXPIRING, num(at), delivery) end
  if at > 0 and sure('ZREM', DUE, delivery) == 1 then
    status = waiting_status(text)
  elseif at == 0 or sure('ZSCORE', DONE, delivery) or sure('ZSCORE', DEAD, delivery) or sure('ZSCORE', CANCELLED, delivery) then
    return sure('ZREM', EXPIRING, delivery)
  elseif not sure('ZSCORE', TAKEN, delivery) then
    local behind = set_ahead_of(l, id, record)
    if behind then
      sure('ZREM', behind, id)
      status = 'scheduled'
    else
      local near, late, r = not text and math.max(created_at(record), deliver_at(record)) or nil, search_spent(), reach_of(l)
      if take_out(l, id, near) then
        status = 'ready'
      elseif near and late and r.length > SEARCHED then
        return -- the next call searches for it
      elseif r.head + r.tail < r.length then
        sums.deep, sums.missed = l, delivery
      end
    end
  end
  if not status then return check_expiry_later(delivery) end
  l.waiting = l.waiting - 1
  count(status, -1)
  local mark = status == 'ready' and sure('HGET', MARKS, delivery)
  if mark then
    count(end_marked(delivery, mark, (parse_progress(text))), 1)
  elseif ends_with_lane(l, id, record) then
    end_with_lane(l, delivery, text)
  else
    end_dead_unattempted(l, delivery, text, 'expired')
  end
  leave_line(l, id, record)
end

-- end_deep ends expired deliveries in some part of a list that is too long to be read for each delivery. It leaves out the part
-- that is far from both ends, because to remove an element there is slow. It returns how many it ended.
local function end_deep(l, most)
  local FAR, PAGE = 50000, 512
  local r, names, places = reach_of(l), {}, {}
  local middle = r.length - r.head - r.tail
  if middle <= 0 then return 0 end
  local span = math.min(middle, 2 * FAR)
  local first = r.head + micros % span
  if 2 * (micros % span) >= span then first = first + middle - span end
  local page = sure('LRANGE', READY .. l.name, first, math.min(first + PAGE, r.head + middle) - 1)
  elements_read = elements_read + #page
  for i, element in ipairs(page) do names[i] = l.name .. ':' .. select(2, split(element)) end
  for i, score in ipairs(sure('ZMSCORE', EXPIRING, unpack(names))) do
    if score and (tonumber(score) <= now or find(score, '.5', 1, true)) and #places < 2 * most then append_pair(places, names[i], first + i - 1) end
  end
  for i = 1, #places, 2 do
    r.at[select(2, split(places[i]))] = places[i + 1]
    end_at_expiry(places[i])
  end
  return #places / 2
end

-- end_expired ends some deliveries whose time has come. It returns the ms until the next call: the more it searched in vain,
-- the longer, so that searches take about a hundredth of the time of Redis.
local function end_expired() -- rare
  local MOST, COST, SHARE = 40, 160, 10 -- COST: elements that may be read for each delivery that ends
  local list, names = sure('ZRANGEBYSCORE', EXPIRING, '-inf', now, 'LIMIT', 0, MOST), {}
  elements_read = SEARCHED / 2 -- the other half of the time is for the ends
  for i, delivery in ipairs(list) do names[i] = lane_of(delivery) end
  load_lanes(names)
  for _, delivery in ipairs(list) do end_at_expiry(delivery) end
  if sums.deep and end_deep(sums.deep, MOST) > 0 then sure('ZADD', EXPIRING, format('%d.5', now - 1), sums.missed) end -- there may be more
  close_lists()
  local over = (#ended.done + #ended.cancelled + #ended.dead) / 2
  return floor(math.max(0, elements_read - SEARCHED / 2 - COST * over) / SHARE)
end
