-- archived: let trim forget archived entries. If the entry that was archived last is not there, and was not cut,
-- the log lost its tail: a master without it took over, or Redis began again from its disk. A mark reports that to the reader.
-- If the clock is behind, it also puts later entries behind the archived ones.
-- needs: common(call, first_write), position(is_later, ms_and_seq, next_id)
--
-- ARGV[3] epoch  the name of the data that was read
-- ARGV[4] p      id of the last entry that is archived
-- ARGV[5] bytes  that schedule stored up to there, since the entry that was archived before
-- returns { 1 }, or { 0 } if that was known already or the data is another: then nothing changed
local p, known = ARGV[4], call('HMGET', ARCHIVE, 'p', 'cut')
if call('HGET', LIMITS, '~epoch') ~= ARGV[3] or not is_later(p, known[1]) then return { 0 } end
local newest = call('XREVRANGE', ATTEMPTS, '+', '-', 'COUNT', 1)[1]
local there = newest and newest[1] == p or #call('XRANGE', ATTEMPTS, p, p) > 0
first_write()
if not there and (ms_and_seq(known[2]) or -1) < ms_and_seq(p) then
  local id = redis.pcall('XADD', ATTEMPTS, next_id(p), 'z', '1')
  if type(id) ~= 'string' then id = redis.pcall('XADD', ATTEMPTS, '*', 'z', '1') end -- ids are further already
  -- A log that can take no entry begins anew with the next change. Without a right, the mark has to wait.
  if type(id) ~= 'string' and not string.find(id.err, 'last possible', 1, true) then call('XADD', ATTEMPTS, '*', 'z', '1') end
end
local left = redis.pcall('HINCRBY', ARCHIVE, 'b', ARGV[5] == '0' and '0' or '-' .. ARGV[5])
if type(left) ~= 'number' or left <= 0 or not newest or not is_later(newest[1], p) then call('HDEL', ARCHIVE, 'b') end
call('HSET', ARCHIVE, 'p', p) -- last: if an error ends the script before, the next call does all of it again
return { 1 }
