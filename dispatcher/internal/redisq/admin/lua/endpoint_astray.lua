-- endpoint_astray: find entries in an index of endpoints whose endpoint is not there, or says otherwise, and remove
-- them. It has nothing of common; endpoint_common describes the keys.
--
-- KEYS[1] tag     {<project>}, never exists
-- ARGV[1] fix     1: wrong entries are removed
-- ARGV[2] index   uids, all, public, or tenant
-- ARGV[3] tenant  of tenant
-- ARGV[4..] ids; of uids: uids
-- returns those that are wrong
local tag, call = KEYS[1], redis.call
local ENDPOINTS, UIDS, TENANT, ALL, PUBLIC = tag .. ':endpoints', tag .. ':uids', tag .. ':tenant:', tag .. ':all', tag .. ':public'
local fix, index, tenant = ARGV[1] == '1', ARGV[2], ARGV[3]
local key = ({ uids = UIDS, all = ALL, public = PUBLIC, tenant = TENANT .. tenant })[index] or error('no index')
if fix then call('DEL', tag) end

-- says reports whether a record may have a field with a value. A record that can't be read may have any.
local function says(id, field, value)
  local stored = call('HGET', ENDPOINTS, id)
  if not stored then return false end
  local readable, record = pcall(cjson.decode, string.match(stored, '^%d+ (.*)$') or '')
  if not readable or type(record) ~= 'table' then return true end
  return (record[field] or '') == value
end

local answer = {}
for i = 4, #ARGV do
  local name, wrong = ARGV[i], false
  if index == 'uids' then
    local id = call('HGET', key, name)
    wrong = id and not says(id, 'uid', name)
  elseif call('ZSCORE', key, name) then
    if index == 'tenant' then
      wrong = not says(name, 'tenant', tenant)
    else
      wrong = call('HEXISTS', ENDPOINTS, name) == 0
    end
  end
  if wrong then
    answer[#answer + 1] = name
    if fix then call(index == 'uids' and 'HDEL' or 'ZREM', key, name) end
  end
end
return answer
