-- subjects: find messages by the tokens of their subjects, some of each, the newest.
-- needs: common(call, created_at, hex, micros, num, sub), finish(before_due, before_weight, hint_weight)
--
-- ARGV[3] most of each, ARGV[4] the newest ms of acceptance (empty: any), ARGV[5..] tokens, as 8 bytes, at most 4, or four
--   digits, which stand for the tokens that end with them
-- returns now, due, weight, then for each message: its id, ms of its acceptance; an empty id at the end if there were too many
local most, newest = tonumber(ARGV[3]), tonumber(ARGV[4]) or SANE
local too_many = math.max(20000, 8 * most + 3) -- values of an answer: four tokens have no more
local answer = { micros, before_due, hint_weight(before_weight) }
local tokens = {}
for i = 5, #ARGV do
  local digits = ARGV[i]
  if #digits == 8 then
    tokens[#tokens + 1] = digits
  else
    local first, known = sub(digits, 1, 1), {}
    for _, element in ipairs(call('LRANGE', DIGITS .. sub(digits, 2), 0, -1)) do
      local token = sub(element, 1, 8)
      if sub(element, 9) == first and not known[token] then
        known[token] = true
        tokens[#tokens + 1] = token
      end
    end
  end
end
for _, token in ipairs(tokens) do
  local text = call('HGET', SUBJECTS, token) or ''
  local list = text == '*' and call('ZREVRANGEBYSCORE', SUBJECT .. hex(token), num(newest), '-inf', 'WITHSCORES', 'LIMIT', 0, most) or {}
  for id in string.gmatch(text == '*' and '' or text, '%S+') do
    local record = call('HGET', MESSAGES, id)
    if record and #record > DIGEST and created_at(record) <= newest then list[#list + 1], list[#list + 2] = id, num(created_at(record)) end
  end
  for _, value in ipairs(list) do answer[#answer + 1] = value end
  if #answer > too_many then
    answer[#answer + 1], answer[#answer + 2] = '', '0'
    break
  end
end
return answer
