-- restore_known: make ids known whose deliveries ended before the store was lost. Known ids stay.
-- needs: common(call, first_addition, micros), finish(before_due, before_weight, hint_weight)
--
-- ARGV[3..] for each: id, digest, ms when the last of them ended
-- returns now, due, weight
first_addition()
for i = 3, #ARGV, 3 do
  local id = ARGV[i]
  if not call('HGET', MESSAGES, id) then
    call('HSET', MESSAGES, id, ARGV[i + 1])
    call('ZADD', SEEN, ARGV[i + 2] .. '.5', id)
  end
end
return { micros, before_due, hint_weight(before_weight) }
