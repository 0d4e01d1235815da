-- session_read: read a session. One that is used when less than half is left lasts anew.
--
-- ARGV[1] hash  of its token
-- ARGV[2] for   ms
-- returns its key and when it ends; nothing: there is none
local session = SESSION .. ARGV[1]
local long = tonumber(ARGV[2])
local found = call('HMGET', session, 'key', 'until')
local key, ends = found[1], tonumber(found[2] or 0) or 0
if not key or ends <= now then return {} end

-- The clock of another master may have been ahead: no session lasts longer than that.
if ends - now < long / 2 or ends - now > long then
  ends = now + long
  call('DEL', tag)
  call('HSET', session, 'until', num(ends))
  call('PEXPIREAT', session, num(ends))
end
return { key, num(ends) }
