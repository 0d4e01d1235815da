-- doctor_values: remove texts that can't be read, unless they have changed since.
-- needs: common(call, first_write, micros, tag), finish(before_due, before_weight, hint_weight), doctor(args_from)
--
-- ARGV[..] after the arguments of doctor: the hash's name, then for each: field, text
-- returns now, due, weight
first_write(true)
local hash = tag .. ARGV[args_from]
for i = args_from + 1, #ARGV, 2 do
  if call('HGET', hash, ARGV[i]) == ARGV[i + 1] then call('HDEL', hash, ARGV[i]) end
end
return { micros, before_due, hint_weight(before_weight) }
