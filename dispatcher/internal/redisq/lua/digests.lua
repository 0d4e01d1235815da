-- digests: read what messages are, of those whose lanes lie in several partitions: one that is another anywhere must be
-- written nowhere. It changes nothing.
--
-- ARGV[3..] message ids
-- returns now, due, weight, then for each: the digest, empty where no such message is known
local answer = { micros, before_due, weighs(before_weight) }
for i = 3, #ARGV do
  local record = call('HGET', MESSAGES, ARGV[i])
  answer[#answer + 1] = record and sub(record, 1, DIGEST) or ''
end
return answer
