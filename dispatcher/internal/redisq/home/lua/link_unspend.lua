-- link_unspend: take back the newest call of a link that was counted, because it was refused. Its record has the same or
-- fewer bytes then, so this works also when memory is full.
-- needs: access_common(LINKS, call, live, tag)
--
-- ARGV[1] id
-- returns nothing
local record = live(ARGV[1])
if not record then return {} end
local head, spent, rest = string.match(record, '^(%x+ %d+ %d+) (%S+) (.*)$')
if not string.find(spent, '%d') then return {} end
local fewer = string.match(spent, '^(.*),%d+$') or '-'
call('DEL', tag) -- a removal first: Redis refuses a script at its first write when memory is full
call('HSET', LINKS, ARGV[1], head .. ' ' .. fewer .. ' ' .. rest)
return {}
