-- identify: give a project its id, unless it has one. Redis would refuse HSETNX alone when memory is full. It accepts a
-- script that begins with a removal. It has nothing of common.
--
-- KEYS[1] tag  {<project>}, never exists
-- ARGV[1] id   a random one
-- returns the project's id
local META = KEYS[1] .. ':meta'
redis.call('DEL', KEYS[1])
redis.call('HSETNX', META, 'id', ARGV[1])
return redis.call('HGET', META, 'id')
