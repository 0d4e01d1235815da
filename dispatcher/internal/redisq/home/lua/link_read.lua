-- link_read: read one link.
-- needs: access_common(live)
--
-- ARGV[1] id
-- returns its record; nothing: there is none
local record = live(ARGV[1])
return record and { record } or {}
