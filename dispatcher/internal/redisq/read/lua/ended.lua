-- ended: read the finished deliveries of one lane, oldest first, all end sets in one order. It excludes the present ms, because
-- more deliveries may end in it. It has limits of names, records and bytes, so that it does not block Redis.
-- needs: common(call, find, floor, head_of, micros, now, split, sub), finish(before_due, before_weight, hint_weight),
--   read(args_from, last_attempt, precedes)
--
-- ARGV[4]   lane
-- ARGV[5]   end sets that are asked for, each as a word with a space at both ends: done, dead, cancelled
-- ARGV[6]   most to answer
-- ARGV[7]   score and, ARGV[8], name of the last one before; empty: from the start
-- ARGV[9]   ms from which they ended; empty: any. ARGV[10] likewise: ms before which
-- returns now, due, weight, 1 if there is more, how many names were looked at, how many records were read, score and name of
--   the last one that was looked at, the newest ends that were forgotten: one that was delivered or cancelled, and a dead
--   one (empty: none was); then for each: delivery, score, set, head of its record (empty: none), progress, newest of its
--   history (empty: none)
local MOST_NAMES, LEAST_NAMES, MOST_RECORDS, MOST_BYTES = 2048, 256, 256, 1048576
local lane, asked, wanted = ARGV[args_from] .. ':', ARGV[args_from + 1], math.min(tonumber(ARGV[args_from + 2]), MOST_RECORDS)
local after, last, since = ARGV[args_from + 3], ARGV[args_from + 4], ARGV[args_from + 5]
local before = math.min(now, tonumber(ARGV[args_from + 6]) or now)
if since ~= '' and (after == '' or tonumber(after) < tonumber(since)) then after, last = since, '' end

-- start is the rank of the first name behind the last one before. That one may be gone, and many share one ms.
local function start(key)
  if after == '' then return 0 end
  local low = call('ZCOUNT', key, '-inf', '(' .. after)
  if last == '' then return low end
  local rank = call('ZRANK', key, last)
  if rank and tonumber(call('ZSCORE', key, last)) == tonumber(after) then return rank + 1 end
  local high = low + call('ZCOUNT', key, after, after)
  while low < high do
    local middle = floor((low + high) / 2)
    if precedes(last, call('ZRANGE', key, middle, middle)[1]) then high = middle else low = middle + 1 end
  end
  return low
end

-- Of each set some names, most of the first one: mostly it has most.
local lists, left = {}, MOST_NAMES
local sets = { { 'done', DONE }, { 'dead', DEAD }, { 'cancelled', CANCELLED } }
for i, set in ipairs(sets) do
  if find(asked, ' ' .. set[1] .. ' ', 1, true) then
    local n = left - LEAST_NAMES * (#sets - i)
    local from = start(set[2])
    local list = call('ZRANGE', set[2], from, from + n - 1, 'WITHSCORES')
    lists[#lists + 1] = { set = set[1], list = list, at = 1, cut = #list == 2 * n }
    left = left - #list / 2
  end
end

-- next_end is the list with the earliest end that is left; nil: there is none, or another may be earlier.
local function next_end()
  local first, score
  for _, l in ipairs(lists) do
    local at = tonumber(l.list[l.at + 1])
    if not at and l.cut then return nil, true end
    if at and at < before and (not first or at < score or at == score and precedes(l.list[l.at], first.list[first.at])) then
      first, score = l, at
    end
  end
  return first, false
end

local chosen, names, looked, more, position = {}, {}, 0, false, { after, last }
while #chosen <= wanted do
  local l, cut = next_end()
  if not l then
    more = cut
    break
  end
  local name, score = l.list[l.at], l.list[l.at + 1]
  if sub(name, 1, #lane) == lane then
    if #chosen == wanted then
      more = true
      break
    end
    chosen[#chosen + 1] = { name, score, l.set, looked + 1 }
    names[#names + 1] = name
  end
  l.at, looked, position = l.at + 2, looked + 1, { score, name }
end

local texts = #names > 0 and call('HMGET', PROGRESS, unpack(names)) or NONE
local answer, bytes, nread = { micros, before_due, hint_weight(before_weight), 0, 0, 0, '', '', '', '' }, 0, 0
for k, one in ipairs(chosen) do
  local _, id = split(one[1])
  bytes = bytes + call('HSTRLEN', MESSAGES, id)
  if bytes > MOST_BYTES and nread > 0 then
    looked, more, position = chosen[k - 1][4], true, { chosen[k - 1][2], chosen[k - 1][1] }
    break
  end
  local record = call('HGET', MESSAGES, id)
  nread = nread + 1
  local whole = record and #record > DIGEST
  for _, value in ipairs({
    one[1], one[2], one[3], whole and head_of(record) or '', texts[k] or '', whole and last_attempt(one[1], texts[k]) or '',
  }) do
    answer[#answer + 1] = value
  end
end
local forgotten = call('HMGET', ARCHIVE, 'ended', 'dead')
answer[4], answer[5], answer[6], answer[7], answer[8] = more and 1 or 0, looked, nread, position[1], position[2]
answer[9], answer[10] = forgotten[1] or '', forgotten[2] or ''
return answer
