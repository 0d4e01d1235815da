-- endpoint_delete: delete an endpoint of any version, and note that until its lane is empty. It has nothing of common;
-- endpoint_create says what the keys hold.
--
-- KEYS[1] tag     {<project>}, never exists
-- ARGV[1] id
-- ARGV[2] project its id, with which each published text begins; empty: nothing is published, since PUBLISH may not be used
-- returns "ok" and the version of its end, also where it was deleted before; "gone" where there is nothing of it
local tag, call = KEYS[1], redis.call
local ENDPOINTS, UIDS, TENANT, ALL, PUBLIC, GONE, SEALED = tag .. ':endpoints', tag .. ':uids', tag .. ':tenant:', tag .. ':all', tag .. ':public', tag .. ':gone', tag .. ':sealed'
local id = ARGV[1]

-- sealed_by answers the key by which a record is sealed and proved, - for none; keys.go says more.
local function sealed_by(record) return string.match(record, ',"mac":"mac1%.(%x+)%.[^"]*"}$') or '-' end
-- tally counts the endpoint. If a hand-written key can't be counted, nothing else changes: doctor counts again.
local function tally(key, n)
  local sum = redis.pcall('HINCRBY', SEALED, key, n)
  if type(sum) == 'number' and sum <= 0 then redis.pcall('HDEL', SEALED, key) end
end

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

call('HDEL', ENDPOINTS, id)
tally(sealed_by(stored), -1)
call('HSET', GONE, id, version)
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
