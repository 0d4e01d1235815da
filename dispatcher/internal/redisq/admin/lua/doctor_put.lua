-- doctor_put: put a record in the place of another one of the same message, if that did not change since it was read.
-- needs: common(first_write, micros, sure), finish(before_due, before_weight, hint_weight), doctor(args_from)
--
-- ARGV[..] after the arguments of doctor: message, the record as it was read, the one to put there
-- returns now, due, weight, 1 if it was put there
first_write(true)
local put = sure('HGET', MESSAGES, ARGV[args_from]) == ARGV[args_from + 1]
if put then sure('HSET', MESSAGES, ARGV[args_from], ARGV[args_from + 2]) end
return { micros, before_due, hint_weight(before_weight), put and 1 or 0 }
