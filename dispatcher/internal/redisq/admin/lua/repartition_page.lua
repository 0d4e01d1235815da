-- repartition_page: read the parts of messages that decide where they go, without their bodies.
-- needs: common(body_apart, body_of, call, sub), server(server)
--
-- ARGV[3] cursor of the page before, 0 for the first
-- ARGV[4] count  about how many
-- returns the next cursor, 0 after the last, the process that it is valid for, and then for each: id, length of its record, of a
--   body that lies apart, the record's head, its lanes as :fan has them (empty: none)
local HEAD_BYTES = 64 -- bytes; the fixed places and the longest lane have 59

local page = call('HSCAN', MESSAGES, ARGV[3], 'COUNT', tonumber(ARGV[4]))
local answer, found = { page[1], server() }, page[2]
for i = 1, #found, 2 do
  answer[#answer + 1] = found[i]
  answer[#answer + 1] = #found[i + 1]
  answer[#answer + 1] = body_apart(found[i + 1]) and call('HSTRLEN', BODIES, body_of(found[i], found[i + 1])) or 0
  answer[#answer + 1] = sub(found[i + 1], 1, HEAD_BYTES)
  answer[#answer + 1] = call('HGET', FAN, found[i]) or ''
end
return answer
