-- link_revoke: remove a link, also when memory is full.
-- needs: access_common(live, remove)
--
-- ARGV[1] id
-- returns 1: it was there
local there = live(ARGV[1])
remove(ARGV[1])
return { there and 1 or 0 }
