-- doctor_judge: find the faults of deliveries of one lane, all at one moment, and repair them. A repair may cause an
-- attempt too many. It never loses a delivery.
-- needs: common(at_now, call, created_at, deliver_at, expires_at, first_write, key_of, match, micros, now, num,
--   only_lane), lane_state(lanes, load_lanes), progress(parse_progress, progress_text, waiting_status, with_beside),
--   sums(append_pair, count, count_dead, sums), finish(before_due, before_weight, finish, hint_weight),
--   ends(end_marked, end_with_lane, ended, ends_with_lane, write_ends), order(join_line, last_scores, line_of,
--   release_next), expiry(set_expiry, watch_expiry), doctor(args_from, has_ended, how_named, in_line, let_wait_ahead,
--   line_sets, over_or_none, places_of)
--
-- ARGV[..] after the arguments of doctor: 1 to repair, 1 if all of a long ready list was read already without finding those that
--   are nowhere else, the lane, then for each: id, its element of the ready list, its line as "<lane>:<key>" (empty: none
--   was seen)
-- returns now, due, weight, then for each fault: id, kind, detail; of kind unsure: it may be in the list, which is too long
--   to be read here
local fix, list_read, name = ARGV[args_from] == '1', ARGV[args_from + 1] == '1', ARGV[args_from + 2]
if fix then first_write(true) end
load_lanes({ name })
local l, list = lanes[name], READY .. name
local answer, repaired = { micros, before_due, hint_weight(before_weight) }, false
local function report(id, kind, detail)
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = id, kind, detail
  repaired = repaired or fix
  return fix
end

local ids, given, elements, seen = {}, {}, {}, {}
for i = args_from + 3, #ARGV, 3 do
  ids[#ids + 1], given[ARGV[i]], elements[ARGV[i]], seen[ARGV[i]] = ARGV[i], ARGV[i + 1], {}, ARGV[i + 2]
end
local entire
-- read_ready reads the elements of the ready list.
local function read_ready()
  local AT_END = 2048       -- elements read at each end of a long list; a list of up to twice as many is read whole
  local REACH = 100000    -- elements from each end in which a known element is looked for: 3 ms
  local length = call('LLEN', list)
  entire = length <= 2 * AT_END
  local function read(from, to, end_)
    for _, element in ipairs(call('LRANGE', list, from, to)) do
      local id = string.match(element, '^%d+:(.+)$')
      local found = id and elements[id]
      if found then found[#found + 1] = { 'ready', list, element, end_ } end
    end
  end
  if entire then
    read(0, -1, 1)
  else
    read(0, AT_END - 1, 1)
    read(-AT_END, -1, -1)
    for _, id in ipairs(ids) do
      local element, at = given[id], {}
      for _, rank in ipairs(element ~= '' and { 1, -1 } or {}) do
        for _, position in ipairs(call('LPOS', list, element, 'RANK', rank, 'COUNT', 2, 'MAXLEN', REACH)) do
          if not at[position] and #elements[id] < 2 then
            at[position] = true
            if position >= AT_END and position < length - AT_END then -- else it was read above
              elements[id][#elements[id] + 1] = { 'ready', list, element, rank }
            end
          end
        end
      end
    end
  end
end
read_ready()

local statuses = { ready = 'ready', behind = 'scheduled', leased = 'in_flight', done = 'delivered', dead = 'dead', cancelled = 'cancelled' }

-- remove takes a delivery out of one place and leaves the counts. A delivery in one place too many was counted once.
local function remove(p)
  if p[1] == 'ready' then call('LREM', p[2], p[4], p[3]) else call('ZREM', p[2], p[3]) end
  if p[2] == TAKEN then call('HDEL', TOKENS, p[3]) end
end

-- take_away takes a delivery out of its only place and changes the counts.
local function take_away(delivery, p)
  local place, text = p[1], call('HGET', PROGRESS, delivery)
  remove(p)
  count(statuses[place] or waiting_status(text), -1)
  if place == 'leased' then
    l.flying = l.flying - 1
  elseif not has_ended(place) then
    l.waiting = l.waiting - 1
  elseif place == 'dead' then
    local _, _, _, _, _, reason = parse_progress(text)
    count_dead(name, reason, -1)
  end
end

-- step_out takes a delivery out of its line, whatever number of lines the lane has, and releases the next one.
local function step_out(id, record)
  for _, set in ipairs(line_sets(name, record, seen[id])) do
    local rank = call('ZRANK', set, id)
    if rank then
      call('ZREM', set, id)
      if rank == 0 then release_next(l, set) end
    end
  end
end

-- expected is the ms at which a lost delivery may be attempted, by its last attempt, else by its message.
local function expected(delivery, record, text)
  if not text then return deliver_at(record) end
  local _, _, _, _, asked = parse_progress(text)
  local newest = call('LINDEX', HISTORY .. delivery, 0)
  local due = newest and tonumber(string.match(newest, '^(%d+) ')) or 0
  return asked > 0 and now or due
end

-- restore puts a delivery that is in no place where it belongs. It ends where everything says that it ended, else it
-- goes on. A lost delivery is mostly still counted; if not, counts are compared later.
local function restore(delivery, id, record)
  local mark, text = call('HGET', MARKS, delivery), call('HGET', PROGRESS, delivery)
  local _, _, _, _, _, reason = parse_progress(text)
  local over_now = true
  if mark then
    end_marked(delivery, mark, (parse_progress(text)))
  elseif reason ~= '-' then
    append_pair(ended.dead, now, delivery)
  elseif ends_with_lane(l, id, record) then
    end_with_lane(l, delivery, text)
  else
    over_now = false
  end
  if over_now then
    write_ends()
    return step_out(id, record)
  end
  watch_expiry(delivery, record)
  local key, due = line_of(l, record), expected(delivery, record, text)
  if key and not in_line(name, id, record, seen[id]) and not join_line(l, key, id) then return end
  if due > now then
    call('ZADD', DUE, num(due), delivery)
  else
    call('RPUSH', list, num(now) .. ':' .. id)
  end
end

-- alive gives a delivery that is not dead after all a new ladder.
local function alive(delivery)
  local text = call('HGET', PROGRESS, delivery)
  local a, _, _, s, _, reason, more = parse_progress(text)
  if reason ~= '-' then call('HSET', PROGRESS, delivery, progress_text(a, a, 0, s, 0, '-', with_beside(more, 0))) end
end

-- Which of two places is kept. A delivered one is not attempted again. One that waits behind another keeps its turn. A
-- lease ends by itself, with one attempt. One that waits for its time is not early. All these come before an end that
-- was not final, because to drop a waiting delivery would be a loss.
local function settle_places(delivery, id, record, found)
  local ranks = { done = 1, behind = 2, leased = 3, due = 4, ready = 5, dead = 6, cancelled = 7 }
  table.sort(found, function(a, b) return ranks[a[1]] < ranks[b[1]] end)
  for i = 2, #found do remove(found[i]) end
  local kept = found[1][1]
  if kept ~= 'dead' then alive(delivery) end
  if kept ~= 'ready' and kept ~= 'leased' then call('HDEL', MARKS, delivery) end
  if has_ended(kept) then
    call('ZREM', EXPIRING, delivery)
    call('ZREM', UNOPENED, delivery)
    step_out(id, record)
  end
end

-- carry_out ends a delivery with a mark in a place where no script carries marks out.
local function carry_out(delivery, id, record, p)
  local mark = call('HGET', MARKS, delivery)
  call('HDEL', MARKS, delivery)
  if has_ended(p[1]) then return end
  take_away(delivery, p)
  count(end_marked(delivery, mark, (parse_progress(call('HGET', PROGRESS, delivery)))), 1)
  write_ends()
  step_out(id, record)
end

-- fall_in puts a waiting delivery that is in no line at the end of its own.
local function fall_in(delivery, id, record, p)
  if join_line(l, line_of(l, record), id) then return end
  take_away(delivery, p)
  l.waiting = l.waiting + 1
  count('scheduled', 1)
end

-- name_again lets a kept message name the lane of a delivery that is there.
local function name_again(id, record)
  local fan, out = call('HGET', FAN, id) or only_lane(record), {}
  for lane in string.gmatch(fan, '%S+') do
    if lane ~= '-' .. name then out[#out + 1] = lane end
  end
  out[#out + 1] = name
  call('HSET', FAN, id, table.concat(out, ' '))
end

local function leftover(delivery, id)
  return call('ZSCORE', SHELF .. name, id) or call('HEXISTS', PROGRESS, delivery) == 1 or call('HEXISTS', MARKS, delivery) == 1 or call('EXISTS', HISTORY .. delivery) == 1
end

-- unshelve is as in drop_delivery: it takes a delivery off its shelf, and a shelf that is empty then off its tenant's list.
local function unshelve(lane, id)
  call('ZREM', SHELF .. lane, id)
  if call('EXISTS', SHELF .. lane) == 1 then return end
  local owner = call('HGET', OWNERS, lane)
  if owner then
    call('ZREM', TENANT .. owner, lane)
    call('HDEL', OWNERS, lane)
  end
  sums.bare = sums.bare or {}
  sums.bare[lane] = true
end

local function forget(delivery, id)
  unshelve(name, id)
  call('HDEL', PROGRESS, delivery)
  call('HDEL', MARKS, delivery)
  call('ZREM', EXPIRING, delivery)
  call('ZREM', UNOPENED, delivery)
  call('DEL', HISTORY .. delivery)
end

local function spell(found)
  local words = {}
  for i, p in ipairs(found) do words[i] = p[1] end
  return table.concat(words, ', ')
end

-- taken judges the lease of a delivery that is taken, or may seem to be. A lease without a token can't be given
-- back, so it ends.
local function taken(delivery, id)
  local ends, token = call('ZSCORE', TAKEN, delivery), call('HGET', TOKENS, delivery)
  if ends and not match(token or '', '^%d+ %S+ %S+ %d+$') then
    if report(id, 'no_token', '') then
      call('ZADD', TAKEN, at_now, delivery) -- doctor_lanes publishes it for movers
      call('HSET', TOKENS, delivery, at_now .. ' ? ? 0')
    end
  elseif not ends and token and over_or_none(delivery, name, id, call('HGET', MESSAGES, id)) then
    if report(id, 'token', '') then call('HDEL', TOKENS, delivery) end
  end
  if not ends and call('ZSCORE', EXPIRING, delivery) and over_or_none(delivery, name, id, call('HGET', MESSAGES, id)) then
    if report(id, 'expiry', '') then call('ZREM', EXPIRING, delivery) end
  end
  if not ends and call('ZSCORE', UNOPENED, delivery) and over_or_none(delivery, name, id, call('HGET', MESSAGES, id)) then
    if report(id, 'key_wait', '') then call('ZREM', UNOPENED, delivery) end
  end
end

-- alone judges a delivery that is in one place, as it should be.
local function alone(delivery, id, record, p)
  local place, mark = p[1], call('HGET', MARKS, delivery)
  if mark and place ~= 'ready' and place ~= 'leased' then
    if report(id, 'mark', place .. ', marked ' .. mark) then carry_out(delivery, id, record, p) end
    return
  end
  if place == 'due' then
    local how, from, due = let_wait_ahead(delivery, record)
    if how == 'failed' and report(id, 'ahead', 'for ' .. num(math.floor((due - now) / 1000)) .. ' s more, in place of ' .. num(math.floor((due - from) / 1000))) then
      call('ZADD', DUE, num(now + due - from), delivery)
    end
  end
  if has_ended(place) and in_line(name, id, record, seen[id]) then
    if report(id, 'in_line', place) then step_out(id, record) end
  end
  local a, b, d, s, q, reason, more = parse_progress(call('HGET', PROGRESS, delivery))
  if place == 'dead' and reason == '-' and report(id, 'reason', 'it has none') then
    call('HSET', PROGRESS, delivery, progress_text(a, b, d, s, q, 'exhausted', more))
    count_dead(name, '-', -1)
    count_dead(name, 'exhausted', 1)
  elseif place ~= 'dead' and reason ~= '-' and report(id, 'reason', place .. ', ' .. reason) then
    alive(delivery)
  end
  if not has_ended(place) and expires_at(record) > 0 and not call('ZSCORE', EXPIRING, delivery) and report(id, 'no_expiry', '') then
    watch_expiry(delivery, record)
  end
  -- A delivery that was leased is out of its line already.
  if not has_ended(place) and place ~= 'leased' and key_of(record) ~= NO_KEY and not in_line(name, id, record, seen[id]) then
    if report(id, 'no_line', place) then fall_in(delivery, id, record, p) end
  end
end

local function judge(id)
  local delivery = name .. ':' .. id
  local record = call('HGET', MESSAGES, id)
  taken(delivery, id)
  local found, how = places_of(delivery, name, id, record, seen[id]), how_named(name, id, record)
  for _, p in ipairs(elements[id]) do found[#found + 1] = p end
  if how == 'broken' then
    report(id, 'broken_record', '')
  elseif how == 'none' then
    if #found == 0 and not in_line(name, id, record, seen[id]) then
      if leftover(delivery, id) and report(id, 'leftover', '') then forget(delivery, id) end
    elseif report(id, 'no_record', spell(found)) then
      for _, p in ipairs(found) do take_away(delivery, p) end
      step_out(id, record)
      forget(delivery, id)
    end
  elseif how ~= 'yes' and #found > 0 then
    if report(id, 'not_named', spell(found)) then name_again(id, record) end
  elseif how ~= 'yes' then
    if entire and leftover(delivery, id) and report(id, 'leftover', '') then forget(delivery, id) end
  elseif #found == 0 and not entire and not list_read then
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = id, 'unsure', ''
  elseif #found == 0 then
    if report(id, 'no_place', in_line(name, id, record, seen[id]) and 'it is the first of its line' or '') then restore(delivery, id, record) end
  elseif #found > 1 then
    if report(id, 'two_places', spell(found)) then settle_places(delivery, id, record, found) end
  else
    alone(delivery, id, record, found[1])
  end
  if how_named(name, id, record) ~= 'yes' then return end
  local at, accepted = call('ZSCORE', SHELF .. name, id), created_at(record) -- the lane lists its deliveries by that time
  if tonumber(at or nil) ~= accepted and report(id, 'unlisted', at and 'at ' .. at .. ', not at ' .. num(accepted) or '') then
    call('ZADD', SHELF .. name, num(accepted), id)
  end
end
for _, id in ipairs(ids) do
  last_scores = {} -- of lines that the delivery before may have left
  judge(id)
end

if repaired then
  write_ends()
  set_expiry()
  l.ready, l.place = call('LLEN', list), true
  l.flying, l.waiting = math.max(0, l.flying), math.max(0, l.waiting) -- they may have been wrong; they are counted again
  answer[1], answer[2], answer[3] = finish()
end
return answer
