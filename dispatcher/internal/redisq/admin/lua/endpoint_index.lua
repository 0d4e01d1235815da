-- endpoint_index: compare the indexes of endpoints with their records, and correct the indexes. It has nothing of
-- common; endpoint_common describes the keys.
--
-- KEYS[1] tag     {<project>}, never exists
-- ARGV[1] fix     1: wrong entries are repaired
-- ARGV[2..] for each: id, version of the record that was read, created in ms, public (1, 0, or - where nothing but :all is
--           known), uid (empty: none), tenant (empty: none)
-- returns for each that is wrong: id, index, the names of the indexes; or id, same_uid, the endpoint that is found by its uid
local tag, call = KEYS[1], redis.call
local ENDPOINTS, UIDS, TENANT, ALL, PUBLIC = tag .. ':endpoints', tag .. ':uids', tag .. ':tenant:', tag .. ':all', tag .. ':public'
local fix, list = ARGV[1] == '1', {}
for i = 2, #ARGV, 6 do
  list[#list + 1] = {
    id = ARGV[i], version = ARGV[i + 1], created = tonumber(ARGV[i + 2]), public = ARGV[i + 3], uid = ARGV[i + 4], tenant = ARGV[i + 5],
  }
  assert(list[#list].created and ARGV[i + 5], 'no endpoint')
end
if fix then call('DEL', tag) end

local answer = {}
for _, e in ipairs(list) do
  local stored, wrong = call('HGET', ENDPOINTS, e.id), {}
  -- at corrects the time of creation in an index that has the endpoint.
  local function at(key, name)
    if tonumber(call('ZSCORE', key, e.id) or '') == e.created then return end
    wrong[#wrong + 1] = name
    if fix then call('ZADD', key, string.format('%.0f', e.created), e.id) end
  end
  if stored and string.match(stored, '^(%S*)') == e.version then -- else it was changed meanwhile, and the change wrote the indexes
    at(ALL, ':all')
    if e.public ~= '-' then
      at(TENANT .. e.tenant, ':tenant:')
      if e.uid ~= '' and call('HGET', UIDS, e.uid) ~= e.id then
        local other = call('HGET', UIDS, e.uid)
        if not other or call('HEXISTS', ENDPOINTS, other) == 0 then
          wrong[#wrong + 1] = ':uids'
          if fix then call('HSET', UIDS, e.uid, e.id) end
        else
          answer[#answer + 1] = e.id
          answer[#answer + 1] = 'same_uid'
          answer[#answer + 1] = other
        end
      end
      if e.public == '1' then
        at(PUBLIC, ':public')
      elseif call('ZSCORE', PUBLIC, e.id) then
        wrong[#wrong + 1] = ':public'
        if fix then call('ZREM', PUBLIC, e.id) end
      end
    end
  end
  if #wrong > 0 then
    answer[#answer + 1] = e.id
    answer[#answer + 1] = 'index'
    answer[#answer + 1] = table.concat(wrong, ', ')
  end
end
return answer
