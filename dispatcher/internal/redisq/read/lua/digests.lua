-- digests: read the digests of messages whose lanes are in several partitions. An entry that differs in any partition
-- must be written in none. It changes nothing.
-- needs: common(call, micros, sub), finish(before_due, before_weight, hint_weight)
--
-- ARGV[3..] message ids
-- returns now, due, weight, then for each: the digest, empty if no such message is known
local answer = { micros, before_due, hint_weight(before_weight) }
for i = 3, #ARGV do
  local record = call('HGET', MESSAGES, ARGV[i])
  answer[#answer + 1] = record and sub(record, 1, DIGEST) or ''
end
return answer
