-- endpoint_common: the names of the keys, and the count of endpoints by the key that sealed their record. Each script
-- of endpoints is put behind it; it reads none of their ARGV[1..].
--
-- KEYS[1] tag  {<project>}, never exists
--
-- The keys (keys.go has the same names):
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

-- sealed_by returns the key by which a record is sealed and proved, - for none; keys.go says more.
local function sealed_by(record) return string.match(record, ',"mac":"mac1%.(%x+)%.[^"]*"}$') or '-' end
-- tally counts the endpoint. If a hand-written key can't be counted, nothing else changes: doctor counts again.
local function tally(key, n)
  local sum = redis.pcall('HGET', SEALED, key)
  if type(sum) == 'table' then return end
  sum = (tonumber(sum or 0) or 0) + n
  if sum > 0 then redis.pcall('HSET', SEALED, key, string.format('%.0f', sum)) else redis.pcall('HDEL', SEALED, key) end
end
-- Redis rolls nothing back. So a script that changes several keys first makes a call of each kind that needs a right, at
-- tag, where nothing is: if the right is missing, nothing was changed. HSET can't be tried so, and is the first change.
local function try_add() call('ZADD', tag, 'XX', 0, '-') end
local function try_remove()
  call('ZREM', tag, '-')
  call('HDEL', tag, '-')
end
