-- audit: add an entry to the audit, also when memory is full. It has nothing of common.
--
-- KEYS[1] tag      {<project>}, never exists
-- ARGV[1] stream   :audit, or :acts for changes by links
-- ARGV[2] most     entries that it keeps
-- ARGV[3] by
-- ARGV[4] what
-- ARGV[5] target
-- ARGV[6] tenant
-- ARGV[7] detail
-- returns nothing
local tag, call = KEYS[1], redis.call
local AUDIT, ACTS = tag .. ':audit', tag .. ':acts'
local acts, most = ARGV[1] == ':acts', tonumber(ARGV[2])

call('DEL', tag) -- a removal first: what people do to a store without memory is kept too
local function add()
  local entry = { 'MAXLEN', most, '*', 'by', ARGV[3], 'what', ARGV[4], 'target', ARGV[5], 'tenant', ARGV[6], 'detail', ARGV[7] }
  if acts then return redis.pcall('XADD', ACTS, unpack(entry)) end
  return redis.pcall('XADD', AUDIT, unpack(entry))
end
local id = add()
if type(id) == 'table' then
  -- A key of another type, or with the highest id that there is, was written by hand: it begins anew.
  if not string.find(id.err, 'WRONGTYPE') and not string.find(id.err, 'exhausted') then return id end
  call('DEL', acts and ACTS or AUDIT)
  add()
end
return {}
