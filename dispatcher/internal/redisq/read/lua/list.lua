-- list: read a page of one index, newest first, but of due the earliest first. It has limits of names, records and bytes, so that it does not
-- block Redis.
-- needs: common(call, find, floor, head_of, lane_of, marked_delivered, match, micros, now, num, sets_of, split, sub),
--   lane_state(lanes, load_lanes), progress(parse_progress, waiting_status), finish(before_due, before_weight,
--   hint_weight), server(server), read(args_from, due_reason, last_attempt, page_start, precedes, ready_wait_reason,
--   safely, status_of, taken_at, wait_reason)
--
-- ARGV[..] after the arguments of read: index (due, done, dead, cancelled, leases, taken, ready, behind, marks, moved), its instance or
--   lane or empty (moved: the ms in :known of the last lane), most to answer, score and name of the last one before (empty: from
--   the start; ready: its position; behind: the key for the name; marks: the cursor of a scan and the last name of it), then what
--   is asked for, each as words with a space at both ends, or empty for any: statuses, reasons, lanes; 1: marked deliveries are
--   left out; of moved: ms since when
-- returns now, due, weight, 1 if there is more, how many names were looked at, how many records were read, score and name
--   of the last one that was looked at, the process that a cursor is valid for (only of marks; of moved: the ms in :known of the
--   lane), then for each: delivery, score (ready: position), time, status (empty: only its line is asked for), head of the record
--   (empty: none), progress, newest of its history (empty: none), the reason why it waits (empty: none), "<key> <score>" of the line
--   in which others wait behind it (empty: none do; of moved: the ms in :known of the lane)
local MOST_NAMES, MOST_RECORDS, MOST_BYTES = 2048, 256, 1048576
local index, of, wanted = ARGV[args_from], ARGV[args_from + 1], math.min(tonumber(ARGV[args_from + 2]), MOST_RECORDS)
local after, last = ARGV[args_from + 3], ARGV[args_from + 4]
local statuses, reasons, asked_lanes = ARGV[args_from + 5], ARGV[args_from + 6], ARGV[args_from + 7]
local moved, began = index == 'moved', ARGV[args_from + 9]
local unmarked = ARGV[args_from + 8] == '1' and index ~= 'marks' and not moved
local function asks(words, word) return words == '' or find(words, ' ' .. word .. ' ', 1, true) ~= nil end
local asks_lines = not moved and (asks(statuses, 'scheduled') or asks(statuses, 'cancelled'))

-- The entries of the index: delivery, score, time. more: the index has others after them.
local found, more = {}, false
local page = asked_lanes == '' and wanted or MOST_NAMES
-- offset_up is offset in the order of ZRANGE.
local function offset_up(key, score, name)
  if score == '' then return 0 end
  local low = call('ZCOUNT', key, '-inf', '(' .. score)
  local high = low + call('ZCOUNT', key, score, score)
  while low < high do
    local middle = floor((low + high) / 2)
    if precedes(name, call('ZRANGE', key, middle, middle)[1]) then high = middle else low = middle + 1 end
  end
  return low
end
local function page_of_zset(key)
  local up = index == 'due'
  local at = up and offset_up(key, after, last) or page_start(key, after, last)
  local list = call(up and 'ZRANGE' or 'ZREVRANGE', key, at, at + page - 1, 'WITHSCORES')
  for i = 1, #list, 2 do
    found[#found + 1] = { list[i], list[i + 1], index == 'taken' and taken_at(list[i]) or list[i + 1] }
  end
  more = #found == page
end

-- From the tail to the head. Claims take from the head and shift the rest towards it, so no entry that stays is missed.
local function page_of_ready()
  local length = safely('LLEN', READY .. of) or 0
  local top = after == '' and length - 1 or math.min(tonumber(after) - 1, length - 1)
  if top < 0 then return end
  local bottom = math.max(0, top - wanted + 1)
  local list = call('LRANGE', READY .. of, bottom, top)
  for i = #list, 1, -1 do
    local due, id = split(list[i])
    found[#found + 1] = { of .. ':' .. id, num(bottom + i - 1), due }
  end
  more = bottom > 0
end

-- A line is read from its head. So the rank of the first entry gives the ranks of all.
local before = 0 -- deliveries of the line before the first entry
local function page_of_line()
  local key = BEHIND .. of .. ':' .. last
  local list = safely('ZRANGEBYSCORE', key, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, wanted) or {}
  for i = 1, #list, 2 do found[#found + 1] = { of .. ':' .. list[i], list[i + 1], '0' } end
  more = #found == wanted
  if found[1] then before = call('ZCOUNT', key, '-inf', after) end
end

local next_scan = '0'
local function page_of_marks()
  local scan = call('HSCAN', MARKS, after == '' and '0' or after, 'COUNT', wanted)
  for i = 1, #scan[2], 2 do
    if last == '' or scan[2][i] > last then found[#found + 1] = { scan[2][i], '0', '0' } end
  end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  next_scan = scan[1]
  more = next_scan ~= '0'
end

-- Deliveries that may have moved since a walk began come from the lists that lanes have of all their deliveries, which no move
-- changes. The lanes come in the order in which they were last looked at, the last one at the end. So one that is looked at
-- meanwhile comes once more, and none is missed.
local MOST_LANES, ended_page = 64, nil -- ended_page: ms in :known, ms of the shelf and name behind which the next page begins
local function page_of_moved()
  local lane, id = match(last, '^([^:]*):(.*)$')
  local rank = offset_up(KNOWN, of, lane or '')
  if lane and rank > 0 and call('ZRANGE', KNOWN, rank - 1, rank - 1)[1] == lane then rank = rank - 1 end
  local names = call('ZRANGE', KNOWN, rank, rank + MOST_LANES - 1, 'WITHSCORES')
  for i = 1, #names, 2 do
    local shelf, list = SHELF .. names[i], NONE
    if safely('ZCARD', shelf) then
      local at = names[i] == lane and page_start(shelf, after, id) or call('ZCOUNT', shelf, '(' .. began, '+inf')
      list = call('ZREVRANGE', shelf, at, at + MOST_RECORDS - #found - 1, 'WITHSCORES')
    end
    for k = 1, #list, 2 do found[#found + 1] = { names[i] .. ':' .. list[k], list[k + 1], '0', names[i + 1] } end
    more = #found == MOST_RECORDS
    if more then return end
    ended_page = { names[i + 1], '0', names[i] .. ':' }
  end
  more = #names == 2 * MOST_LANES
end

local zsets = { due = DUE, done = DONE, dead = DEAD, cancelled = CANCELLED, leases = LEASES .. of, taken = TAKEN }
if index == 'ready' then
  page_of_ready()
elseif index == 'behind' then
  page_of_line()
elseif index == 'marks' then
  page_of_marks()
elseif moved then
  page_of_moved()
else
  page_of_zset(zsets[index])
end

-- A name of another lane than those asked for costs nothing more.
local chosen, names, reads = {}, {}, {}
local looked = #found
for i, f in ipairs(found) do
  local lane = lane_of(f[1])
  if asks(asked_lanes, lane) then
    if #chosen == MOST_RECORDS then
      looked, more = i - 1, true
      break
    end
    chosen[#chosen + 1], names[#names + 1], reads[#reads + 1] = i, lane, f[1]
  end
end
load_lanes(names)
local ENDED = { done = 'delivered', dead = 'dead', cancelled = 'cancelled' }
local texts, marks = NONE, NONE
if #reads > 0 then
  texts = call('HMGET', PROGRESS, unpack(reads))
  if not ENDED[index] and index ~= 'due' then marks = call('HMGET', MARKS, unpack(reads)) end
end

-- standing returns the status of a delivery by the index in which it was found, and the reason that it waits for.
local function standing(l, k, i)
  if ENDED[index] then return ENDED[index], '' end
  if marks[k] then return marked_delivered(marks[k]) and 'delivered' or 'cancelled', '' end
  if index == 'leases' or index == 'taken' then return 'in_flight', '' end
  if l.limits.held == 'x' then return 'cancelled', '' end
  if index == 'behind' then return 'scheduled', 'order ' .. num(before + i - 1) end
  if index == 'ready' then return 'ready', wait_reason(l, ready_wait_reason(l)) end
  local status = waiting_status(texts[k])
  return status, due_reason(l, reads[k], status)
end

-- stood reports whether a delivery has not moved since the walk began. It had ended or was taken, nothing became ready since, or
-- it waits for the attempt that its last failure led to, and that one began before the walk. One that was in flight when the walk
-- began was read there, or where it waits.
local SKEW = 1000 -- ms by which a sender may take the time of the store to be earlier
local readied = moved and tonumber(call('HGET', LIMITS, '~readied') or 0) or now
local function stood(delivery, status, ms, text, lines)
  if status == 'ready' then return lines == 0 and readied < tonumber(began) end
  if ms == 0 then return false end
  if status == 'delivered' or status == 'dead' or status == 'cancelled' then return ms < tonumber(began) end
  if status == 'in_flight' then return ms < tonumber(began) end
  if ms <= now or (status ~= 'scheduled' and status ~= 'retrying') then return false end
  if not text then return true end
  local next_ms, meta = match(last_attempt(delivery, text), '^(%d+) %d+ (.*)$')
  local at = match(meta or '', '"t":(%d+)')
  return at and tonumber(next_ms) == ms and tonumber(at) + SKEW < tonumber(began)
end

-- leads is the line of which a delivery is the first, with others behind it.
local function leads(l, id, record)
  if not asks_lines or l.state.keys == 0 then return '' end
  for _, set in ipairs(sets_of(l, record)) do
    local two = safely('ZRANGE', set, 0, 1, 'WITHSCORES')
    if two and two[1] == id and two[3] then return sub(set, #BEHIND + #l.name + 2) .. ' ' .. two[2] end
  end
  return ''
end

local function wants(status, text, mark)
  if not asks(statuses, status) or (mark and unmarked) then return false end
  if reasons == '' then return true end
  local _, _, _, _, _, reason = parse_progress(text)
  return status == 'dead' and asks(reasons, reason)
end

local answer = { micros, before_due, hint_weight(before_weight), 0, 0, 0, '', '', index == 'marks' and server() or '' }
local bytes, nread, answered = 0, 0, 0
for k, i in ipairs(chosen) do
  local delivery, l, text = found[i][1], lanes[names[k]], texts[k]
  local _, id = split(delivery)
  local record, status, why, ms = false, '', '', 0
  if moved then
    status, ms, why = status_of(delivery, l, id, l.state.keys > 0 and call('HGET', MESSAGES, id))
    found[i][3] = ms
  else
    status, why = standing(l, k, i)
  end
  local matching = wants(status, text, marks[k]) and not (moved and stood(delivery, status, tonumber(ms), text, l.state.keys))
  if matching or (asks_lines and l.state.keys > 0) then
    bytes = bytes + call('HSTRLEN', MESSAGES, id)
    if answered >= wanted or (nread > 0 and bytes > MOST_BYTES) then
      looked, more = i - 1, true
      break
    end
    record, nread = call('HGET', MESSAGES, id), nread + 1
  end
  local line = moved and found[i][4] or leads(l, id, record)
  if matching or line ~= '' and not moved then
    local whole = matching and record and #record > DIGEST
    local time = found[i][3]
    if not moved and (marks[k] or (status == 'cancelled' and not ENDED[index])) then time = '0' end
    answered = answered + (matching and 1 or 0)
    for _, value in ipairs({
      delivery, found[i][2], time, matching and status or '', whole and head_of(record) or '', text or '',
      whole and last_attempt(delivery, text) or '', why, line,
    }) do
      answer[#answer + 1] = value
    end
  end
end
answer[4], answer[5], answer[6] = more and 1 or 0, looked, nread
if index == 'marks' then
  local whole = looked == #found
  answer[7] = whole and next_scan or (after == '' and '0' or after)
  answer[8] = whole and '' or looked > 0 and found[looked][1] or last
elseif moved and looked == #found and #found < MOST_RECORDS then
  local at = ended_page or { of, after, last }
  answer[7], answer[8], answer[9] = at[2], at[3], at[1]
elseif looked > 0 then
  answer[7], answer[8], answer[9] = found[looked][2], found[looked][1], found[looked][4] or ''
end
return answer
