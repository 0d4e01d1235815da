-- endpoint_versions: read the versions of endpoints, and which of them were deleted, all at one moment. It is put
-- behind endpoint_common.
-- needs: endpoint_common(ENDPOINTS, GONE, call)
--
-- KEYS[1] tag   {<project>}, never exists
-- ARGV[1..] ids
-- returns for each: its version (0: there is none, -1: it can't be read), the version of its end (0: it was not deleted)
local stored, ends, answer = call('HMGET', ENDPOINTS, unpack(ARGV)), call('HMGET', GONE, unpack(ARGV)), {}
for i in ipairs(ARGV) do
  local version = stored[i] and (string.match(stored[i], '^(%d+) ') or -1) or 0
  answer[#answer + 1], answer[#answer + 2] = tonumber(version), tonumber(ends[i] or 0)
end
return answer
