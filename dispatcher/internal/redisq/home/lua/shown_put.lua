-- shown_put: keep a page for its owner. Those that have ended go, and the oldest of too many.
-- needs: access_common(SHOWN, call, now, num)
--
-- ARGV[1] hash  of the owner's name
-- ARGV[2] hash  of the page's id
-- ARGV[3] page  sealed
-- ARGV[4] for   ms
-- ARGV[5] most  pages that an owner has
local shown = SHOWN .. ARGV[1]
local most, ends = tonumber(ARGV[5]), {}
local all = call('HGETALL', shown)
for i = 1, #all, 2 do
  local at = tonumber(string.match(all[i + 1], '^(%d+) ') or 0)
  if at <= now or at > now + tonumber(ARGV[4]) then
    call('HDEL', shown, all[i])
  else
    ends[#ends + 1] = { at, all[i] }
  end
end
table.sort(ends, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end)
for i = 1, #ends + 1 - most do
  call('HDEL', shown, ends[i][2])
end
local last = num(now + tonumber(ARGV[4]))
call('HSET', shown, ARGV[2], last .. ' ' .. ARGV[3])
call('PEXPIREAT', shown, last)
return {}
