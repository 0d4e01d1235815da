-- endpoint_delete: delete an endpoint of any version, and note that until its lane is empty. It is put behind
-- endpoint_common.
-- needs: endpoint_common(ALL, ENDPOINTS, GONE, PUBLIC, TENANT, UIDS, call, sealed_by, tally, try_remove)
--
-- KEYS[1] tag     {<project>}, never exists
-- ARGV[1] id
-- ARGV[2] project its id, with which each published text begins; empty: nothing is published, because PUBLISH may not be used
-- returns "ok" and the version of its end, also if it was deleted before; "gone" if there is nothing of it
local id = ARGV[1]

local stored = call('HGET', ENDPOINTS, id)
if not stored then
  local version = call('HGET', GONE, id)
  return version and { 'ok', version } or { 'gone' }
end
-- A record that can't be read leaves its id in two indexes. Without the record the id there means nothing.
local readable, was = pcall(cjson.decode, string.match(stored, '^%d+ (.*)$') or '')
local function text(name)
  local value = readable and type(was) == 'table' and was[name]
  return type(value) == 'string' and value or ''
end
local uid, tenant = text('uid'), text('tenant')
local version = string.format('%.0f', (tonumber(string.match(stored, '^(%d+) ') or 0) or 0) + 1)

try_remove()
call('HSET', GONE, id, version)
call('HDEL', ENDPOINTS, id)
tally(sealed_by(stored), -1)
call('ZREM', ALL, id)
call('ZREM', PUBLIC, id)
call('ZREM', TENANT .. tenant, id)
if uid ~= '' and call('HGET', UIDS, uid) == id then
  call('HDEL', UIDS, uid)
end
if ARGV[2] ~= '' then
  call('PUBLISH', ENDPOINTS, ARGV[2] .. ' 0 ' .. id .. ' ' .. tenant)
end
return { 'ok', version }
