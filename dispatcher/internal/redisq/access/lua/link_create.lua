-- link_create: keep a link, also when memory is full.
--
-- ARGV[1] id
-- ARGV[2] hash    of its token
-- ARGV[3] for     ms
-- ARGV[4] most    links that there may be
-- ARGV[5] tidied  how many that have expired are removed first
-- ARGV[6] allows  JSON
-- returns when it was made and when it expires; nothing: there are too many
local id, most = ARGV[1], tonumber(ARGV[4])
call('DEL', tag)
for _, old in ipairs(call('ZRANGEBYSCORE', LAPSE, '-inf', num(now), 'LIMIT', 0, tonumber(ARGV[5]))) do remove(old) end
if call('HLEN', LINKS) >= most then return {} end

local newest = call('ZREVRANGE', LINKED, 0, 0, 'WITHSCORES')
local made = math.max(now, (tonumber(newest[2] or 0) or 0) + 1)
local ends = now + tonumber(ARGV[3])
call('HSET', LINKS, id, ARGV[2] .. ' ' .. num(made) .. ' ' .. num(ends) .. ' - ' .. ARGV[6])
call('ZADD', LINKED, num(made), id)
call('ZADD', LAPSE, num(ends), id)
return { num(made), num(ends) }
