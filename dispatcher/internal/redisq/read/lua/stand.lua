-- stand: return the statuses of messages' deliveries, and nothing else of them. It has limits of lanes and bytes, so that it
-- does not block Redis.
-- needs: common(call, created_at, format, lanes_of, micros, num, sub), lane_state(lanes, load_lanes),
--   finish(before_due, before_weight, hint_weight), read(args_from, status_of)
--
-- ARGV[..] after the arguments of read: how many lanes of the first message a call before returned, then for each: id, digest
-- returns now, due, weight, how many messages have all their lanes, how many lanes the next one has, then a text of words,
--   for each that was begun: result (0 not kept, 2 the same, 3 other content), created ms, the number of deliveries that
--   follow, and of each lane, status, ms
local MOST_LANES, MOST_BYTES = 64, 1048576
local names, asked, bytes, whole, begun = {}, {}, 0, 0, tonumber(ARGV[args_from])
for i = args_from + 1, #ARGV, 2 do
  if #names == MOST_LANES or bytes >= MOST_BYTES then break end
  local id = ARGV[i]
  local record = call('HGET', MESSAGES, id)
  local e = { id = id, record = record, code = '0', first = #names + 1 }
  local all, told = {}, begun
  if record and #record > DIGEST then
    bytes = bytes + #record
    e.code = '3'
    if sub(record, 1, DIGEST) == ARGV[i + 1] then e.code, all = '2', lanes_of(id, record) end
  end
  while told < #all and #names < MOST_LANES do
    told = told + 1
    local lane = all[told]
    if lane ~= '' and sub(lane, 1, 1) ~= '-' then names[#names + 1] = lane end
  end
  e.last = #names
  asked[#asked + 1] = e
  if told < #all then
    begun = told
    break
  end
  whole, begun = whole + 1, 0
end
load_lanes(names)

local words = {}
for _, e in ipairs(asked) do
  words[#words + 1] = e.code
  words[#words + 1] = e.code == '2' and num(created_at(e.record)) or '0'
  words[#words + 1] = format('%d', e.last - e.first + 1)
  for i = e.first, e.last do
    local status, at = status_of(names[i] .. ':' .. e.id, lanes[names[i]], e.id, e.record)
    words[#words + 1], words[#words + 2], words[#words + 3] = names[i], status, at
  end
end
return { micros, before_due, hint_weight(before_weight), whole, begun, table.concat(words, ' ') }
