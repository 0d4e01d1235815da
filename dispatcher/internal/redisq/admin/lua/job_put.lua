-- job_put: write a job's record, unless it was changed meanwhile.
--
-- KEYS[1] tag   {<project>}, under which lies
--   :jobs       hash  number of a job -> its record, as JSON; "n" -> the last number; "live" -> the numbers of those that
--                     have not ended, with spaces between; "<number> was <partition> <turn>" -> what :jobs of a partition
--                     had of the job before a repartition
-- ARGV[1] number  of the job; empty: it is new
-- ARGV[2] old     its record as it was read; empty: it is new
-- ARGV[3] record
-- ARGV[4] live    1: it has not ended
-- ARGV[5] most    of those that may be live
-- returns its number; 0: it was changed meanwhile; -1: too many are live
local JOBS = KEYS[1] .. ':jobs'
local number, old, live, most = ARGV[1], ARGV[2], ARGV[4] == '1', tonumber(ARGV[5])
redis.call('DEL', KEYS[1]) -- Redis refuses the first write if memory is full, but no removal

local others = {}
for other in string.gmatch(redis.call('HGET', JOBS, 'live') or '', '%d+') do
  if other ~= number then others[#others + 1] = other end
end
if number == '' then
  if #others >= most then return { -1 } end
  number = tostring(redis.call('HINCRBY', JOBS, 'n', 1))
elseif (redis.call('HGET', JOBS, number) or '') ~= old then
  return { 0 }
end
if live then others[#others + 1] = number end
redis.call('HSET', JOBS, number, ARGV[3], 'live', table.concat(others, ' '))
return { tonumber(number) }
