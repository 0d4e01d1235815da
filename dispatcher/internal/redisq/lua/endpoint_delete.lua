-- endpoint_delete: forget an endpoint, whatever its version. It has nothing of common; endpoint_create says what the keys
-- hold.
--
-- KEYS[1] tag     {<project>}, never exists
-- ARGV[1] id
-- ARGV[2] silent  1: nobody is told, since PUBLISH may not be used
-- returns "ok"; "gone" where there is none
local tag, call = KEYS[1], redis.call
local ENDPOINTS, UIDS, TENANT, ALL = tag .. ':endpoints', tag .. ':uids', tag .. ':tenant:', tag .. ':all'
local id = ARGV[1]

local stored = call('HGET', ENDPOINTS, id)
if not stored then
  return { 'gone' }
end
-- A record that can't be read leaves its id in two indexes, where it names nothing.
local readable, was = pcall(cjson.decode, string.match(stored, '^%d+ (.*)$') or '')
local function text(name)
  local value = readable and type(was) == 'table' and was[name]
  return type(value) == 'string' and value or ''
end
local uid, tenant = text('uid'), text('tenant')

call('HDEL', ENDPOINTS, id)
call('ZREM', ALL, id)
call('ZREM', TENANT .. tenant, id)
if uid ~= '' and call('HGET', UIDS, uid) == id then
  call('HDEL', UIDS, uid)
end
if ARGV[2] == '0' then
  call('PUBLISH', ENDPOINTS, '0 ' .. id .. ' ' .. tenant)
end
return { 'ok' }
