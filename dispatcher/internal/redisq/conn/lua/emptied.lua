-- emptied: write to :meta that data were lost, and the settings of a project without :meta. Redis would refuse HSETNX alone when
-- memory is full. It accepts a script that begins with a removal. It has nothing of common.
--
-- KEYS[1] tag    {<project>}, never exists
-- ARGV[1] count  of the fields that follow
-- ARGV[2..]      fields, each with its value: the fields about the loss, with the epoch of the lost data, then the fields
--                without which :meta is none
-- ARGV[..]       behind them 1 if the fields may be written over, which ends a loss, then the fields that go
-- returns 1
local META, n = KEYS[1] .. ':meta', tonumber(ARGV[1])
redis.call('EXPIREAT', KEYS[1], '4102444800')
local over = ARGV[2 + 2 * n] == '1'
for i = 2, 1 + 2 * n, 2 do
  redis.call(over and 'HSET' or 'HSETNX', META, ARGV[i], ARGV[i + 1])
end
for i = 3 + 2 * n, #ARGV do redis.call('HDEL', META, ARGV[i]) end
return 1
