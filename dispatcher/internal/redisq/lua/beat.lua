-- beat: write an instance's number, or what it tells of itself, though memory is full. HSET alone would be refused then, and
-- everybody declared dead; a script that begins with a removal is not. Used only after that refusal: what a script does
-- inside counts as commands too, and beats go on for ever. It has nothing of common.
--
-- KEYS[1] tag      {<project>}, never exists
-- ARGV[1] key      :instances, or :about
-- ARGV[2] by       the instance
-- ARGV[3] value
-- returns 1 when the instance was not there
redis.call('DEL', KEYS[1])
return redis.call('HSET', KEYS[1] .. ARGV[1], ARGV[2], ARGV[3])
