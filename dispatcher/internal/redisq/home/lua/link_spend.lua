-- link_spend: count one of the calls that a link may make in an hour, the same for all instances.
-- needs: access_common(LINKS, call, live, now, num, tag)
--
-- ARGV[1] id
-- ARGV[2] most    calls
-- ARGV[3] within  ms
-- returns 0, or for how many ms it may make none; nothing: there is no such link
local id, most, within = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local record = live(id)
if not record then return {} end

local head, spent, rest = string.match(record, '^(%x+ %d+ %d+) (%S+) (.*)$')
local times = {}
for text in string.gmatch(spent, '%d+') do
  local at = math.min(tonumber(text), now) -- a later time is of another clock
  if at > now - within then times[#times + 1] = num(at) end
end
if #times >= most then return { math.ceil(tonumber(times[#times - most + 1]) + within - now) } end

times[#times + 1] = num(now)
call('DEL', tag) -- a removal first: Redis refuses a script at its first write when memory is full
call('HSET', LINKS, id, head .. ' ' .. table.concat(times, ',') .. ' ' .. rest)
return { 0 }
