-- probe: do once what every script needs. It reads the time, and then writes, reads and removes a key that was not
-- declared. So a store that allows less is found before it gets any work.
-- needs: common(call, first_write, tag), finish(finish)
--
-- ARGV[3] value  to write
-- returns now, due, weight, the value that was read
local PROBE = tag .. ':probe'
first_write(true)
call('SET', PROBE, ARGV[3])
local read = call('GET', PROBE)
call('DEL', PROBE)
local t, d, w = finish()
return { t, d, w, read }
