-- archived: what is safe in the archive may be trimmed.
--
-- ARGV[3] epoch  the name of the data that was read
-- ARGV[4] p      id of the last entry that is archived
-- ARGV[5] bytes  that schedule stored up to there, since the entry that was archived before
-- returns { 1 }, or { 0 } where that was known already or the data is another: then nothing changed
local known = call('HMGET', ARCHIVE, 'epoch', 'p')
if known[1] ~= ARGV[3] or not later(ARGV[4], known[2]) then return { 0 } end
call('DEL', tag)
call('HSET', ARCHIVE, 'p', ARGV[4])
local newest = call('XREVRANGE', ATTEMPTS, '+', '-', 'COUNT', 1)[1]
local left = redis.pcall('HINCRBY', ARCHIVE, 'b', ARGV[5] == '0' and '0' or '-' .. ARGV[5])
if type(left) ~= 'number' or left <= 0 or not newest or not later(newest[1], ARGV[4]) then call('HDEL', ARCHIVE, 'b') end
return { 1 }
