-- shelf: read a page of all deliveries of some lanes, the newest accepted first. It returns where each
-- delivery is at that moment, so none that moves is missed or shown twice. It reads no delivery of another lane.
-- needs: common(call, created_at, find, head_of, lanes_of, micros, num, sub), lane_state(lanes, load_lanes),
--   finish(before_due, before_weight, hint_weight), read(args_from, last_attempt, page_start, precedes, status_of)
--
-- ARGV[..] after the arguments of read: most to answer, the place of the last one before as ms, lane and id (empty: from the
--   newest; a ms without a lane: deliveries accepted before it), ms from which they were accepted (empty: any), statuses that
--   are asked for, as words with a space at both ends (empty: any), 1: only those that failed (empty: any), then the shelves, at most 256: lanes, or parts of queues;
--   or in place of shelves some messages, at most 4, each with = before its id: then the page is of their deliveries
-- returns now, due, weight, 1 if there is more, how many names were looked at, of how many of them the state was read, how many
--   records were read, place of the last one that was looked at as ms and name; then for each: delivery, ms when it was accepted, status, its time in ms (0:
--   none), the reason why it waits (empty: none), head of its record (empty: none), progress, newest of its history
local MOST_NAMES, MOST_BYTES, MOST_LANES, BLOCK = 256, 1048576, 256, 16
local PASSED_NAMES = 2048 -- of those that failed: a name without an attempt is passed over, which costs a tenth
local wanted = math.min(tonumber(ARGV[args_from]), MOST_NAMES)
local after, last_lane, last_id = ARGV[args_from + 1], ARGV[args_from + 2], ARGV[args_from + 3]
local since, asked, failed = tonumber(ARGV[args_from + 4]) or 0, ARGV[args_from + 5], ARGV[args_from + 6] == '1'
local names = {}
for i = args_from + 7, math.min(#ARGV, args_from + 6 + MOST_LANES) do names[#names + 1] = ARGV[i] end

-- precedes_lane compares lanes by the names of their deliveries, which go on with a colon.
local function precedes_lane(a, b) return precedes(a .. ':', b .. ':') end

-- lane_of_shelf is the lane of a shelf. The shelf of a tenant in a queue has ~ and a hash of 16 characters behind the lane.
local function lane_of_shelf(name)
  if #name > 17 and sub(name, -17, -17) == '~' then return sub(name, 1, -18) end
  return name
end

-- first_rank is where a shelf continues behind the place of the last one before. Of one ms the highest lane comes first.
local function first_rank(name, lane)
  if after == '' then return 0 end
  if lane == last_lane then return page_start(SHELF .. name, after, last_id) end
  return call('ZCOUNT', SHELF .. name, last_lane ~= '' and precedes_lane(lane, last_lane) and '(' .. after or after, '+inf')
end

-- advance makes the next entry of a lane its head. It reads a block of them if none is left. It reports whether there
-- is one.
local function advance(s)
  if s.at > #s.block then
    s.block = call('ZREVRANGE', SHELF .. s.name, s.rank, s.rank + s.size - 1, 'WITHSCORES')
    s.rank, s.at, s.size = s.rank + s.size, 1, BLOCK
  end
  s.id, s.ms = s.block[s.at], tonumber(s.block[s.at + 1])
  s.at = s.at + 2
  return s.id and s.ms >= since
end

-- older compares entries; of one ms, as a list does, by the names of their deliveries.
local function older(a, b)
  if a.ms ~= b.ms then return a.ms < b.ms end
  if a.lane ~= b.lane then return precedes_lane(a.lane, b.lane) end
  return precedes(a.id, b.id)
end

-- of_messages are the deliveries of messages behind the place of the last one before, the newest first.
local function of_messages()
  local all, last = {}, { ms = tonumber(after) or SANE, lane = last_lane, id = last_id }
  for i = 1, math.min(#names, 4) do
    local id = sub(names[i], 2)
    local record = call('HGET', MESSAGES, id)
    local ms = record and #record > DIGEST and created_at(record) or -1
    if ms >= since and (ms < last.ms or ms == last.ms and last_lane ~= '') then
      for _, lane in ipairs(lanes_of(id, record)) do
        local one = { ms = ms, lane = lane, id = id }
        if lane ~= '' and sub(lane, 1, 1) ~= '-' and older(one, last) then all[#all + 1] = one end
      end
    end
  end
  table.sort(all, function(a, b) return older(b, a) end)
  return all
end

-- The lanes by their heads, the newest last. First only the heads are read. Of more lanes than names are looked at, the
-- older ones can't come on this page.
local found, looked, more = {}, failed and PASSED_NAMES or asked == '' and wanted or MOST_NAMES, false
local shelves, about = {}, sub(names[1] or '', 1, 1) == '='
for _, name in ipairs(about and NONE or names) do
  local lane = lane_of_shelf(name)
  local s = { name = name, lane = lane, rank = first_rank(name, lane), block = {}, at = 1, size = 1 }
  if advance(s) then shelves[#shelves + 1] = s end
end
table.sort(shelves, older)
while #found < looked and #shelves > 0 do
  local s = table.remove(shelves)
  found[#found + 1] = { s.lane, s.id, s.ms }
  if advance(s) then
    local at = #shelves + 1
    while at > 1 and older(s, shelves[at - 1]) do at = at - 1 end
    table.insert(shelves, at, s)
  end
end
more = #shelves > 0
if about then
  local all = of_messages()
  more = #all > looked
  for i = 1, math.min(#all, looked) do found[i] = { all[i].lane, all[i].id, all[i].ms } end
end

local used, is_used = {}, {}
for _, f in ipairs(found) do
  if not is_used[f[1]] then
    is_used[f[1]] = true
    used[#used + 1] = f[1]
  end
end
load_lanes(used)

-- texts has the entries of :progress of what was found, if only those that failed are asked for. A delivery that was not
-- attempted has none.
local texts = {}
for from = 1, failed and #found or 0, MOST_NAMES do
  local deliveries = {}
  for i = from, math.min(from + MOST_NAMES - 1, #found) do deliveries[#deliveries + 1] = found[i][1] .. ':' .. found[i][2] end
  for i, text in ipairs(call('HMGET', PROGRESS, unpack(deliveries))) do texts[from + i - 1] = text end
end

local last_name = last_lane == '' and '' or last_lane .. ':' .. last_id
local answer = { micros, before_due, hint_weight(before_weight), 0, 0, 0, 0, after, last_name }
local bytes, nread, answered, stated = 0, 0, 0, 0
looked = #found
for i, f in ipairs(found) do
  local lane, id = f[1], f[2]
  local l, delivery, record = lanes[lane], lane .. ':' .. id, nil
  local status, ms, why = '', '0', ''
  if not failed or texts[i] then
    if stated == MOST_NAMES then
      looked, more = i - 1, true
      break
    end
    stated = stated + 1
    if l.state.keys > 0 then record = call('HGET', MESSAGES, id) end -- it names the line in which the delivery may wait
    status, ms, why = status_of(delivery, l, id, record)
  end
  if status ~= '' and (asked == '' or find(asked, ' ' .. status .. ' ', 1, true)) then
    bytes = bytes + call('HSTRLEN', MESSAGES, id)
    if answered == wanted or nread > 0 and bytes > MOST_BYTES then
      looked, more = i - 1, true
      break
    end
    record, nread, answered = record or call('HGET', MESSAGES, id), nread + 1, answered + 1
    local whole, text = record and #record > DIGEST, call('HGET', PROGRESS, delivery)
    for _, value in ipairs({
      delivery, num(f[3]), status, ms, why, whole and head_of(record) or '', text or '', whole and last_attempt(delivery, text) or '',
    }) do
      answer[#answer + 1] = value
    end
  end
end
answer[4], answer[5], answer[6], answer[7] = more and 1 or 0, looked, stated, nread
if looked > 0 then answer[8], answer[9] = num(found[looked][3]), found[looked][1] .. ':' .. found[looked][2] end
return answer
