-- session_renew: replace the record of a session that is used, also when memory is full. One that was changed since it was
-- read stays as it is.
-- needs: access_common(SESSION, call, num, tag)
--
-- ARGV[1] key     the owner text of its API key
-- ARGV[2] hash    of its token
-- ARGV[3] before  its record as it was read
-- ARGV[4] record
-- ARGV[5] ends    ms
-- returns 1: it was replaced
local sessions = SESSION .. ARGV[1]
if call('HGET', sessions, ARGV[2]) ~= ARGV[3] then return { 0 } end
call('DEL', tag) -- a removal first: Redis refuses a script at its first write when memory is full
call('HSET', sessions, ARGV[2], ARGV[4])
call('PEXPIREAT', sessions, num(tonumber(ARGV[5])))
return { 1 }
