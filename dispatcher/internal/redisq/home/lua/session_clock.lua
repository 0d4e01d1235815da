-- session_clock: read the store's clock, for a session or a link, whose record is signed outside of Redis.
-- needs: access_common(now, num)
--
-- ARGV[...]  none
-- returns the time in ms
return { num(now) }
