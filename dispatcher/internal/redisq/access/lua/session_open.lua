-- session_open: begin a session, also when memory is full.
--
-- ARGV[1] hash  of its token
-- ARGV[2] key   the owner text of its API key
-- ARGV[3] for   ms
-- returns when it ends
local session = SESSION .. ARGV[1]
local ends = num(now + tonumber(ARGV[3]))
call('DEL', tag) -- a removal first: Redis refuses a script at its first write when memory is full
call('HSET', session, 'key', ARGV[2], 'until', ends)
call('PEXPIREAT', session, ends)
return { ends }
