-- health: add a part of the counts of an instance to a hash of figures, once. It has nothing of common. At home the hash
-- is a day's and its fields are minutes, in a partition it is half an hour's and they are lanes.
--
-- KEYS[1] tag       {<project>} or {<project>:<n>}, never exists
-- ARGV[1] instance  that counted; its parts are added in their order
-- ARGV[2] conf      not read
-- ARGV[3] part      a number: an instance's part that is not above the last one was added before
-- ARGV[4] forgotten instances whose last part is not above this number
-- ARGV[5] period    number of the day, or of the half hour
-- ARGV[6] kept      number of periods whose hashes are kept
-- ARGV[7] until     Unix seconds at which this one may go
-- ARGV[8] most      fields; more are added to *
-- ARGV[9..] for each: field, numbers with a space between two
-- returns 1 added, 0 added before
local tag, call = KEYS[1], redis.call
local HEALTH, ADDED = tag .. ':health:', tag .. ':added'
local by, part, forgotten, period = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local kept, till, most = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
assert(part and forgotten and period and kept and till and most and #ARGV % 2 == 0, 'no part of a count')
local INSTANCES = 1024 -- whose last parts are known: ticks are an instance each
local HIGHEST = 99999999999999 -- the greatest number that Lua writes with all its digits

-- sum adds the numbers of two texts one by one.
local function sum(text, more)
  local list, n = {}, 0
  for word in string.gmatch(text, '%d+') do
    n = n + 1
    list[n] = math.min(tonumber(word) or HIGHEST, HIGHEST)
  end
  local i = 0
  for word in string.gmatch(more, '%d+') do
    i = i + 1
    list[i] = math.min((list[i] or 0) + tonumber(word), HIGHEST)
  end
  return table.concat(list, ' ')
end

call('ZREMRANGEBYSCORE', ADDED, '-inf', forgotten) -- a removal first
local last = call('ZSCORE', ADDED, by)
if last and tonumber(last) >= part then return { 0 } end

local name = HEALTH .. string.format('%.0f', period)
local size = redis.pcall('HLEN', name)
if type(size) == 'table' then -- of another type, written by hand
  if not string.find(size.err, 'WRONGTYPE') then return size end
  call('DEL', name)
  size = 0
end
if size == 0 then -- the first of its period removes old ones, if keys have no TTL
  for old = period - 2 * kept, period - kept do call('DEL', HEALTH .. string.format('%.0f', old)) end
end
local new = size == 0
for i = 9, #ARGV, 2 do
  local field = ARGV[i]
  local is = call('HGET', name, field)
  if not is and size >= most then
    field = '*'
    is = call('HGET', name, field)
  end
  if not is then size = size + 1 end
  call('HSET', name, field, is and sum(is, ARGV[i + 1]) or ARGV[i + 1])
end
if new then call('EXPIREAT', name, till) end
call('ZADD', ADDED, part, by)
call('ZREMRANGEBYRANK', ADDED, 0, -1 - INSTANCES)
return { 1 }
