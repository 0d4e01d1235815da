-- job_page: read deliveries that ended, oldest first, for a job, or that wait for their time. It has limits of names, records and bytes, so
-- that it does not block Redis.
-- needs: common(call, find, floor, head_of, lane_of, match, micros, split, tag), progress(job_of_more, parse_progress,
--   waiting_status), finish(before_due, before_weight, hint_weight), read(args_from, precedes)
--
-- ARGV[..] after the arguments of read: index (dead, done, cancelled, due, or of:<lane>), earliest and latest score, score and name of the last one
--   before (empty: from the start), most to answer, lanes to skip, then the filter: lanes, reasons, each as words
--   with a space at both ends, or empty for none or any; the number of a job whose deliveries are left out (empty: none); 1: the
--   heads of the records are asked for; of due and of: retrying or scheduled, as the deliveries have to be
-- returns now, due, weight, 1 if there is more, how many names were looked at, score and name of the last one, then for each:
--   delivery, score (of of: when it is due), head of the record (empty: none), progress (empty: none)
local MOST_NAMES, MOST_BYTES, CHUNK = 1000, 1048576, 128
local key, min, max = tag .. ':' .. ARGV[args_from], ARGV[args_from + 1], ARGV[args_from + 2]
local after, last, wanted = ARGV[args_from + 3], ARGV[args_from + 4], tonumber(ARGV[args_from + 5])
local passed, lanes_asked, reasons, job, heads = ARGV[args_from + 6], ARGV[args_from + 7], ARGV[args_from + 8], ARGV[args_from + 9], ARGV[args_from + 10] == '1'
local shelf, status = match(ARGV[args_from], '^of:(.*)$'), ARGV[args_from + 11]
local function has(words, word) return find(words, ' ' .. word .. ' ', 1, true) ~= nil end

-- start is the rank of the first name of the page. The last one before may be gone, and many share one ms, so it is found
-- by binary search, by score and then by name.
local function start()
  if after == '' then return call('ZCOUNT', key, '-inf', '(' .. min) end
  local rank = call('ZRANK', key, last)
  if rank and tonumber(call('ZSCORE', key, last)) == tonumber(after) then return rank + 1 end
  local low = call('ZCOUNT', key, '-inf', '(' .. after)
  local high = low + call('ZCOUNT', key, after, after)
  while low < high do
    local middle = floor((low + high) / 2)
    if precedes(last, call('ZRANGE', key, middle, middle)[1]) then high = middle else low = middle + 1 end
  end
  return low
end

local from = start()
local list = call('ZRANGE', key, from, from + MOST_NAMES - 1, 'WITHSCORES')
local looked, more, bytes = 0, #list == 2 * MOST_NAMES, 0
local answer = { micros, before_due, hint_weight(before_weight), 0, 0, after, last }

-- take returns some names with their texts, and reports whether the page goes on.
local hits = 0
local function take(chunk)
  if #chunk == 0 then return true end
  local names = {}
  for i, at in ipairs(chunk) do names[i] = shelf and shelf .. ':' .. list[at] or list[at] end
  local dues = shelf and call('ZMSCORE', DUE, unpack(names))
  for i, text in ipairs(call('HMGET', PROGRESS, unpack(names))) do
    local _, _, _, _, _, reason, rest = parse_progress(text)
    local at = list[chunk[i] + 1]
    if shelf then at = dues[i] end
    if at and (status == '' or waiting_status(text) == status) and (reasons == '' or has(reasons, reason)) and (job == '' or job_of_more(rest) ~= job) then
      local record
      if heads then
        local _, id = split(names[i])
        bytes = bytes + call('HSTRLEN', MESSAGES, id)
        record = (bytes <= MOST_BYTES or hits == 0) and call('HGET', MESSAGES, id)
      end
      if hits == wanted or (bytes > MOST_BYTES and hits > 0) then
        looked, more = (chunk[i] - 1) / 2, true
        return false
      end
      hits = hits + 1
      local n = #answer
      answer[n + 1], answer[n + 2] = names[i], at
      answer[n + 3], answer[n + 4] = record and #record > DIGEST and head_of(record) or '', text or ''
    end
  end
  return true
end

local function page()
  local chunk, latest = {}, tonumber(max)
  for at = 1, #list, 2 do
    if tonumber(list[at + 1]) > latest then
      more = false
      break
    end
    looked = (at + 1) / 2
    local lane = shelf or lane_of(list[at])
    if not has(passed, lane) and (lanes_asked == '' or has(lanes_asked, lane)) then
      chunk[#chunk + 1] = at
      if #chunk == CHUNK then
        if not take(chunk) then return end
        chunk = {}
      end
    end
  end
  take(chunk)
end
page()
answer[4], answer[5] = more and 1 or 0, looked
if looked > 0 then answer[6], answer[7] = list[2 * looked], list[2 * looked - 1] end
return answer
