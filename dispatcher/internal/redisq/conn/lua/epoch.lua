-- epoch: give a partition that has none a new epoch. Redis would refuse HSETNX alone when memory is full. It accepts a
-- script that begins with a removal. It has nothing of common.
--
-- KEYS[1] tag    {<project>:<n>}, never exists
-- ARGV[1] by     not used
-- ARGV[2] conf   not used
-- ARGV[3] epoch  a random text
-- returns the partition's epoch
local LIMITS = KEYS[1] .. ':limits'
redis.call('DEL', KEYS[1])
redis.call('HSETNX', LIMITS, '~epoch', ARGV[3])
return { redis.call('HGET', LIMITS, '~epoch') }
