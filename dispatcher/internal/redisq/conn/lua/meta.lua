-- meta: write fields of :meta and remove others, in one step and also when memory is full. Redis would refuse HSET alone then.
-- It accepts a script that begins with a removal. It has nothing of common.
--
-- KEYS[1] tag    {<project>}, never exists
-- ARGV[1] over   1 if fields that are there are written over
-- ARGV[2] id     that the caller knows as the project's, or empty. If the hash has another id or none, home's data were
--                lost, too: emptied gets the known id, in the same step as the losses of partitions.
-- ARGV[3] count  of the fields that follow
-- ARGV[4..]      fields, each with its value
-- ARGV[..]       behind them the fields that go
-- returns 1
local META, over, id, n = KEYS[1] .. ':meta', ARGV[1] == '1', ARGV[2], tonumber(ARGV[3])
redis.call('EXPIREAT', KEYS[1], '4102444800')
if id ~= '' and redis.call('HGET', META, 'id') ~= id then redis.call('HSETNX', META, 'emptied', id) end
for i = 4, 3 + 2 * n, 2 do
  redis.call(over and 'HSET' or 'HSETNX', META, ARGV[i], ARGV[i + 1])
end
for i = 4 + 2 * n, #ARGV do redis.call('HDEL', META, ARGV[i]) end
return 1
