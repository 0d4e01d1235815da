-- session_open: begin a session of an API key. It ends those that are too many, and forgets those that have ended. It begins
-- with no removal: Redis refuses it when memory is full, and nothing was changed then.
-- needs: access_common(OPENED, SESSION, call, now, num)
--
-- ARGV[1] key     the owner text of the API key
-- ARGV[2] hash    of the session's token
-- ARGV[3] record
-- ARGV[4] ends    ms
-- ARGV[5] most    sessions of the key
-- ARGV[6] times   that people may sign in with the key
-- ARGV[7] within  ms
-- returns 0; or for how many ms nobody may sign in with it
local sessions = SESSION .. ARGV[1]
local most, within = tonumber(ARGV[5]), tonumber(ARGV[7])
local kept, gone, since, count = {}, {}, now, 0
local all = call('HGETALL', sessions)
for i = 1, #all, 2 do
  local one, two = string.match(all[i + 1], '^(%d+) (%d+)')
  one, two = tonumber(one), tonumber(two)
  if all[i] == OPENED then
    if one and two and one <= now and now < one + within then since, count = one, two end
  elseif one and two and two > now then
    kept[#kept + 1] = { one, all[i] }
  else
    gone[#gone + 1] = all[i]
  end
end
if count >= tonumber(ARGV[6]) then return { since + within - now } end

call('HSET', sessions, ARGV[2], ARGV[3], OPENED, num(since) .. ' ' .. num(count + 1))
call('PEXPIREAT', sessions, num(tonumber(ARGV[4])))
table.sort(kept, function(a, b) return a[1] < b[1] end)
for i = 1, #kept + 1 - most do gone[#gone + 1] = kept[i][2] end
for _, hash in ipairs(gone) do call('HDEL', sessions, hash) end
return { 0 }
