-- survey: do once what every script relies on: read the time, and then write, read and remove a key that was not declared.
-- A store that allows none of it is found out before anything is entrusted to it.
--
-- ARGV[3] value  what is written
-- returns now, due, weight, what was read again
local PROBE = tag .. ':probe'
call('DEL', tag) -- a removal first: it must work though memory is full
call('SET', PROBE, ARGV[3])
local read = call('GET', PROBE)
call('DEL', PROBE)
local t, d, w = finish()
return { t, d, w, read }
