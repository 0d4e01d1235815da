-- beat: write an instance's number, or its description, also when memory is full. Redis would refuse HSET
-- alone then, and every instance would be declared dead. It accepts a script that begins with a removal. Only used
-- after that refusal: the commands in a script count too, and beats go on for ever. It has nothing of common.
--
-- KEYS[1] tag      {<project>}, never exists
-- ARGV[1] key      :instances or :about
-- ARGV[2] by       the instance
-- ARGV[3] value
-- returns 1 when the instance was not there
redis.call('DEL', KEYS[1])
return redis.call('HSET', KEYS[1] .. ARGV[1], ARGV[2], ARGV[3])
