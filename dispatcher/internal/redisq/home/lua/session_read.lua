-- session_read: read a session.
-- needs: access_common(SESSION, call, now, num)
--
-- ARGV[1] key   the owner text of its API key
-- ARGV[2] hash  of its token
-- returns the time in ms, and its record if there is one
return { num(now), call('HGET', SESSION .. ARGV[1], ARGV[2]) or nil }
