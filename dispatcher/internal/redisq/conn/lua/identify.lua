-- identify: give a project a random text that it keeps, unless it has one: its id, or its key of cursors. Redis would
-- refuse HSETNX alone when memory is full. It accepts a script that begins with a removal. It has nothing of common.
--
-- KEYS[1] tag    {<project>}, never exists
-- ARGV[1] field  of :meta
-- ARGV[2] text   a random one
-- returns the project's text
local META = KEYS[1] .. ':meta'
redis.call('DEL', KEYS[1])
redis.call('HSETNX', META, ARGV[1], ARGV[2])
return redis.call('HGET', META, ARGV[1])
