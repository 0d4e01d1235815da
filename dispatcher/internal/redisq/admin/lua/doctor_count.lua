-- doctor_count: count a partition, or a part of it: all that other scripts count by differences. If it takes several
-- calls, they belong together while their tokens are equal. Every change of a count changes the token.
-- needs: common(call, micros), lane_state(parse_lane), progress(parse_progress, waiting_status), finish(before_due,
--   before_weight, hint_weight), doctor(args_from, lease_holders)
--
-- ARGV[..] after the arguments of doctor: first and last rank of due and of taken, of dead (-1 for none), number of lanes, lanes, then sets of
--   behind as "<lane>:<key>"
-- returns now, due, weight, token, sizes (due, dead, in flight, lanes that have a count, done, cancelled, taken), scheduled and retrying of those due,
--   a list of lane, due, in flight; a list of "<lane> <reason>", dead; for each lane its text of :in, its sets by :lane and
--   its ready ones; for each set its length; :counts and :buried
local function page(key, first, last)
  if tonumber(last) < tonumber(first) then return {} end
  return call('ZRANGE', key, first, last)
end
local function texts_of(deliveries)
  local texts = {}
  for i = 1, #deliveries, 1000 do
    local some = call('HMGET', PROGRESS, unpack(deliveries, i, math.min(i + 999, #deliveries)))
    for j, text in ipairs(some) do texts[i + j - 1] = text end
  end
  return texts
end

local by_lane, order_of = {}, {}
local function add_to_lane(delivery, i)
  local lane = string.match(delivery, '^[^:]*')
  if not by_lane[lane] then
    by_lane[lane] = { 0, 0 }
    order_of[#order_of + 1] = lane
  end
  by_lane[lane][i] = by_lane[lane][i] + 1
end

local due = page(DUE, ARGV[args_from], ARGV[args_from + 1])
local scheduled, retrying = 0, 0
local texts = texts_of(due)
for i, delivery in ipairs(due) do
  add_to_lane(delivery, 1)
  if waiting_status(texts[i]) == 'retrying' then retrying = retrying + 1 else scheduled = scheduled + 1 end
end
local taken = call('ZCARD', TAKEN)
for _, delivery in ipairs(page(TAKEN, ARGV[args_from], ARGV[args_from + 1])) do add_to_lane(delivery, 2) end
local flying = taken
for _, holder in ipairs(lease_holders) do
  flying = flying + call('ZCARD', LEASES .. holder)
  if ARGV[args_from] == '0' then
    for _, delivery in ipairs(call('ZRANGE', LEASES .. holder, 0, -1)) do add_to_lane(delivery, 2) end
  end
end
local lanes_found = {}
for _, lane in ipairs(order_of) do
  lanes_found[#lanes_found + 1] = lane
  lanes_found[#lanes_found + 1] = by_lane[lane][1]
  lanes_found[#lanes_found + 1] = by_lane[lane][2]
end

local graves, graves_found = {}, {}
local dead = page(DEAD, ARGV[args_from + 2], ARGV[args_from + 3])
texts = texts_of(dead)
for i, delivery in ipairs(dead) do
  local _, _, _, _, _, reason = parse_progress(texts[i])
  local field = string.match(delivery, '^[^:]*') .. ' ' .. reason
  graves[field] = (graves[field] or 0) + 1
end
for field, n in pairs(graves) do
  graves_found[#graves_found + 1] = field
  graves_found[#graves_found + 1] = n
end

local said, last = {}, args_from + 4 + tonumber(ARGV[args_from + 4])
if last > args_from + 4 then
  local ins, lane_texts = call('HMGET', IN, unpack(ARGV, args_from + 5, last)), call('HMGET', LANE, unpack(ARGV, args_from + 5, last))
  for i = 1, #ins do
    said[#said + 1] = ins[i] or ''
    said[#said + 1] = lane_texts[i] and parse_lane(lane_texts[i]).keys or 0
    said[#said + 1] = call('LLEN', READY .. ARGV[args_from + 4 + i])
  end
end
local sets = {}
for i = last + 1, #ARGV do sets[#sets + 1] = call('ZCARD', BEHIND .. ARGV[i]) end

local entry = call('XREVRANGE', ATTEMPTS, '+', '-', 'COUNT', 1)[1]
local fence = call('ZREVRANGE', FENCED, 0, 0, 'WITHSCORES')
-- Each extension moves a taken delivery, and each adoption removes one. No count shows that.
local first, last_end = call('ZRANGE', TAKEN, 0, 0, 'WITHSCORES'), call('ZREVRANGE', TAKEN, 0, 0, 'WITHSCORES')
local token = taken .. '|' .. (first[2] or '') .. '|' .. (last_end[2] or '') .. '|' .. table.concat(call('HGETALL', COUNTS), ' ') .. '|' .. (entry and entry[1] or '') .. '|' .. (fence[2] or '')
return {
  micros, before_due, hint_weight(before_weight), token,
  { call('ZCARD', DUE), call('ZCARD', DEAD), flying, call('HLEN', IN), call('ZCARD', DONE), call('ZCARD', CANCELLED), taken },
  scheduled, retrying, lanes_found, graves_found, said, sets, call('HGETALL', COUNTS), call('HGETALL', BURIED),
}
