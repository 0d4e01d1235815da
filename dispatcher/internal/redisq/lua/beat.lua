-- beat: write an instance's number though memory is full. HSET alone would be refused then, and everybody declared dead;
-- a script that begins with a removal is not. Used only after that refusal: what a script does inside counts as commands
-- too, and beats go on for ever. It has nothing of common.
--
-- KEYS[1] tag      {<project>}, never exists
-- ARGV[1] by       the instance
-- ARGV[2] number
-- returns 1 when the instance was not known
redis.call('DEL', KEYS[1])
return redis.call('HSET', KEYS[1] .. ':instances', ARGV[1], ARGV[2])
