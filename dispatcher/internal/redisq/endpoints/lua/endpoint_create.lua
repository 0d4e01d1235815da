-- endpoint_create: store a new endpoint, so that it is found by its id, its uid, its tenant and its time. It begins
-- with no removal: Redis refuses it when memory is full, and nothing was changed then. It has nothing of common.
--
-- KEYS[1] tag      {<project>}, never exists
-- ARGV[1] id
-- ARGV[2] version
-- ARGV[3] record   JSON, as endpoints_record.go writes it
-- ARGV[4] uid      empty: none
-- ARGV[5] tenant   empty: none
-- ARGV[6] created  ms
-- ARGV[7] project  its id, with which each published text begins; empty: nothing is published, since PUBLISH may not be used
-- ARGV[8] public   1: a secret of it has a public key
-- ARGV[9] most     endpoints that a project may have
-- returns "ok"; "uid", id, stored of the endpoint that has the uid; "id" where that is taken; "full"
--
-- What the keys hold (keys.go has the same names):
--   :endpoints   hash  id -> "<version> <record>"
--   :uids        hash  uid -> id
--   :tenant:<t>  zset  id by creation in ms; :tenant: those without a tenant
--   :all         zset  id by creation in ms
--   :public      zset  id by creation in ms, of those that have a public key
--   :sealed      hash  id of a key of ENCRYPTION_KEY, - for none -> endpoints whose record is sealed with it
--   :gone        hash  id -> version of its end, above any it had: its lane may not be empty yet
--
-- Each change is published on the channel :endpoints as "<id of the project> <version> <id> <tenant>". The version is 0
-- for an endpoint that was deleted.
local tag, call = KEYS[1], redis.call
local ENDPOINTS, UIDS, TENANT, ALL, PUBLIC, GONE, SEALED = tag .. ':endpoints', tag .. ':uids', tag .. ':tenant:', tag .. ':all', tag .. ':public', tag .. ':gone', tag .. ':sealed'
local id, record, uid, tenant = ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local version, created = string.format('%.0f', tonumber(ARGV[2])), string.format('%.0f', tonumber(ARGV[6]))

-- sealed_by answers the key by which a record is sealed and proved, - for none; keys.go says more.
local function sealed_by(record) return string.match(record, ',"mac":"mac1%.(%x+)%.[^"]*"}$') or '-' end
-- tally counts the endpoint. If a hand-written key can't be counted, nothing else changes: doctor counts again.
local function tally(key, n)
  local sum = redis.pcall('HINCRBY', SEALED, key, n)
  if type(sum) == 'number' and sum <= 0 then redis.pcall('HDEL', SEALED, key) end
end

if uid ~= '' then
  local other = call('HGET', UIDS, uid)
  local stored = other and call('HGET', ENDPOINTS, other)
  if stored then -- a uid whose endpoint is gone is free
    return { 'uid', other, stored }
  end
end
if call('HEXISTS', ENDPOINTS, id) == 1 or call('HEXISTS', GONE, id) == 1 then
  return { 'id' }
end
if call('HLEN', ENDPOINTS) >= tonumber(ARGV[9]) then
  return { 'full' }
end

call('HSET', ENDPOINTS, id, version .. ' ' .. record)
tally(sealed_by(record), 1)
if uid ~= '' then
  call('HSET', UIDS, uid, id)
end
call('ZADD', TENANT .. tenant, created, id)
call('ZADD', ALL, created, id)
if ARGV[8] == '1' then
  call('ZADD', PUBLIC, created, id)
end
if ARGV[7] ~= '' then
  call('PUBLISH', ENDPOINTS, ARGV[7] .. ' ' .. version .. ' ' .. id .. ' ' .. tenant)
end
return { 'ok' }
