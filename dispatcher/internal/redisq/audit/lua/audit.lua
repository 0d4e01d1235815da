-- audit: add an entry to the audit, also when memory is full. It has nothing of common.
--
-- KEYS[1] tag      {<project>}, never exists
-- ARGV[1] most     entries that are kept
-- ARGV[2] instead  id of the entry that this one replaces; empty: none
-- ARGV[3] by
-- ARGV[4] what
-- ARGV[5] target
-- ARGV[6] tenant
-- ARGV[7] detail
-- returns its id
local tag, call = KEYS[1], redis.call
local AUDIT = tag .. ':audit'
local most = tonumber(ARGV[1])

call('DEL', tag) -- a removal first: what people do to a store without memory is kept too
if ARGV[2] ~= '' then redis.pcall('XDEL', AUDIT, ARGV[2]) end
local function add()
  return redis.pcall('XADD', AUDIT, 'MAXLEN', most, '*', 'by', ARGV[3], 'what', ARGV[4], 'target', ARGV[5], 'tenant', ARGV[6], 'detail', ARGV[7])
end
local id = add()
if type(id) == 'table' then
  -- A key of another type, or with the highest id that there is, was written by hand: it begins anew.
  if not string.find(id.err, 'WRONGTYPE') and not string.find(id.err, 'exhausted') then return id end
  call('DEL', AUDIT)
  id = add()
end
return { id }
