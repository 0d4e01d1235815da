-- shown_read: read a page of its owner.
-- needs: access_common(SHOWN, call, now)
--
-- ARGV[1] hash  of the owner's name
-- ARGV[2] hash  of the page's id
-- returns it, sealed; nothing: there is none, or it has ended
local found = call('HGET', SHOWN .. ARGV[1], ARGV[2])
local ends, page = string.match(found or '', '^(%d+) (.+)$')
if not ends or tonumber(ends) <= now then return {} end
return { page }
