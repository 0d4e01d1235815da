-- subjects: find messages by the tokens of their subjects, some of each, the newest.
-- needs: common(call, created_at, hex, micros, num), finish(before_due, before_weight, hint_weight)
--
-- ARGV[3] most of each, ARGV[4] the newest ms of acceptance (empty: any), ARGV[5..] tokens, as 8 bytes, at most 4
-- returns now, due, weight, then for each message: its id, ms of its acceptance
local most, newest = tonumber(ARGV[3]), tonumber(ARGV[4]) or SANE
local answer = { micros, before_due, hint_weight(before_weight) }
for i = 5, #ARGV do
  local text = call('HGET', SUBJECTS, ARGV[i]) or ''
  local list = text == '*' and call('ZREVRANGEBYSCORE', SUBJECT .. hex(ARGV[i]), num(newest), '-inf', 'WITHSCORES', 'LIMIT', 0, most) or {}
  for id in string.gmatch(text == '*' and '' or text, '%S+') do
    local record = call('HGET', MESSAGES, id)
    if record and #record > DIGEST and created_at(record) <= newest then list[#list + 1], list[#list + 2] = id, num(created_at(record)) end
  end
  for _, value in ipairs(list) do answer[#answer + 1] = value end
end
return answer
