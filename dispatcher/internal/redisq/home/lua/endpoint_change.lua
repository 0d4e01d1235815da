-- endpoint_change: store an endpoint whose version is above the stored one. It is put behind endpoint_common.
-- needs: endpoint_common(ENDPOINTS, PUBLIC, call, sealed_by, tally, try_add, try_remove)
--
-- KEYS[1] tag      {<project>}, never exists
-- ARGV[1] id
-- ARGV[2] version
-- ARGV[3] record   JSON
-- ARGV[4] uid      as at its creation, because the indexes do not change
-- ARGV[5] tenant   as at its creation
-- ARGV[6] created  ms
-- ARGV[7] project  its id, with which each published text begins; empty: nothing is published, because PUBLISH may not be used
-- ARGV[8] public   1: a secret of it has a public key
-- ARGV[9] before   the version that is stored
-- returns "ok"; "stale" if another version is stored, or none that is below; "gone" if there is none; "other" if it would be another's
local id, record, uid, tenant, created = ARGV[1], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local version = string.format('%.0f', tonumber(ARGV[2]))

local stored = call('HGET', ENDPOINTS, id)
if not stored then
  return { 'gone' }
end
local had, json = string.match(stored, '^(%d+) (.*)$')
if not had or tonumber(had) ~= tonumber(ARGV[9]) or tonumber(had) >= tonumber(version) then
  return { 'stale' }
end
local readable, was = pcall(cjson.decode, json)
if readable and type(was) == 'table' and ((was.uid or '') ~= uid or (was.tenant or '') ~= tenant or was.created ~= created) then
  return { 'other' }
end

try_remove() -- a removal first: an endpoint can be paused or disabled also when memory is full
try_add()
call('HSET', ENDPOINTS, id, version .. ' ' .. record)
if sealed_by(stored) ~= sealed_by(record) then
  tally(sealed_by(stored), -1)
  tally(sealed_by(record), 1)
end
if ARGV[8] == '1' then
  call('ZADD', PUBLIC, ARGV[6], id)
else
  call('ZREM', PUBLIC, id)
end
if ARGV[7] ~= '' then
  call('PUBLISH', ENDPOINTS, ARGV[7] .. ' ' .. version .. ' ' .. id .. ' ' .. tenant)
end
return { 'ok' }
