-- identify: give a hash a random text that it keeps, unless it has one: a project its id and its keys, a partition its epoch.
-- Redis would refuse HSETNX alone when memory is full. It accepts a script that begins with a removal. It has nothing of common.
--
-- The text is written twice, so that Redis appends both writes to its file as one transaction. Redis 7.0 skips
-- transactions when it reads the file, if the user default may not run them. Then the text is lost with the other data,
-- and the loss is noticed.
--
-- KEYS[1] tag    {<project>} or {<project>:<n>}, never exists
-- ARGV[1] key    :meta or :limits
-- ARGV[2] field  of the key
-- ARGV[3] text   a random one
-- returns the text that the field has
local key = KEYS[1] .. ARGV[1]
redis.call('EXPIREAT', KEYS[1], '4102444800')
if redis.call('HSETNX', key, ARGV[2], ARGV[3]) == 1 then redis.call('HSET', key, ARGV[2], ARGV[3]) end
return redis.call('HGET', key, ARGV[2])
