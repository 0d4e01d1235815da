-- meta: write fields of :meta and remove others, in one step and also when memory is full. Redis would refuse HSET alone then.
-- It accepts a script that begins with a removal. It has nothing of common.
--
-- KEYS[1] tag    {<project>}, never exists
-- ARGV[1] over   1 if fields that are there are written over
-- ARGV[2] count  of the fields that follow
-- ARGV[3..]      fields, each with its value
-- ARGV[..]       behind them the fields that go
-- returns 1
local META, over, n = KEYS[1] .. ':meta', ARGV[1] == '1', tonumber(ARGV[2])
redis.call('EXPIREAT', KEYS[1], '4102444800')
for i = 3, 2 + 2 * n, 2 do
  redis.call(over and 'HSET' or 'HSETNX', META, ARGV[i], ARGV[i + 1])
end
for i = 3 + 2 * n, #ARGV do redis.call('HDEL', META, ARGV[i]) end
return 1
