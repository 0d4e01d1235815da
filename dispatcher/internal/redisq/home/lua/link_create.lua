-- link_create: keep a link, also when memory is full.
-- needs: access_common(LAPSE, LINKED, LINKS, call, now, num, remove, tag)
--
-- ARGV[1] id
-- ARGV[2] created  ms
-- ARGV[3] expires  ms
-- ARGV[4] most     links that there may be
-- ARGV[5] tidied   how many that have expired are removed first
-- ARGV[6] record
-- returns 1; nothing: there are too many
local id, created, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
call('DEL', tag)
call('ZADD', tag, 'XX', 0, id) -- nothing is there: a right that is missing must fail before the first change
for _, old in ipairs(call('ZRANGEBYSCORE', LAPSE, '-inf', num(now), 'LIMIT', 0, tonumber(ARGV[5]))) do remove(old) end
if call('HLEN', LINKS) >= most then return {} end

local newest = call('ZREVRANGE', LINKED, 0, 0, 'WITHSCORES')
call('HSET', LINKS, id, ARGV[6])
call('ZADD', LINKED, num(math.max(created, (tonumber(newest[2] or 0) or 0) + 1)), id)
call('ZADD', LAPSE, num(tonumber(ARGV[3])), id)
return { 1 }
