-- endpoint_create: store a new endpoint, so that it is found by its id, its uid, its tenant and its time. It begins
-- with no removal: Redis refuses it when memory is full, and nothing was changed then. It is put behind
-- endpoint_common.
-- needs: endpoint_common(ALL, ENDPOINTS, GONE, PUBLIC, TENANT, UIDS, call, sealed_by, tally, try_add)
--
-- KEYS[1] tag      {<project>}, never exists
-- ARGV[1] id
-- ARGV[2] version
-- ARGV[3] record   JSON, as endpoints_record.go writes it
-- ARGV[4] uid      empty: none
-- ARGV[5] tenant   empty: none
-- ARGV[6] created  ms
-- ARGV[7] project  its id, with which each published text begins; empty: nothing is published, because PUBLISH may not be used
-- ARGV[8] public   1: a secret of it has a public key
-- ARGV[9] most     endpoints that a project may have
-- ARGV[10] of      endpoints that the tenant may have; 0: any number
-- ARGV[11] dry     1: only the answer is wanted, and nothing is stored
-- returns "ok"; "uid", id, stored of the endpoint that has the uid; "id" if that is taken; "full"; "enough": the tenant has too many
local id, record, uid, tenant = ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local version, created = string.format('%.0f', tonumber(ARGV[2])), string.format('%.0f', tonumber(ARGV[6]))

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
local of = tonumber(ARGV[10])
if of > 0 and call('ZCARD', TENANT .. tenant) >= of then
  return { 'enough' }
end
if ARGV[11] == '1' then
  return { 'ok' }
end

try_add()
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
