-- sweep: end deliveries that wait for a time in the lane of a disabled or deleted endpoint, and those in line behind
-- them.
--
-- ARGV[3]   lane
-- ARGV[4..] deliveries of it
-- returns now, due, weight, number that ended
local name, ids = ARGV[3], {}
for i = 4, #ARGV do
  local lane, id = parts(ARGV[i])
  if lane == name then ids[#ids + 1] = id end
end
call('DEL', tag)
load({ name })
local l = lanes[name]
if ends(l) then
  for _, id in ipairs(ids) do
    local delivery = name .. ':' .. id
    if sure('ZREM', DUE, delivery) == 1 then expel(l, delivery, id, sure('HGET', PROGRESS, delivery)) end
  end
end
local n = (#ended.cancelled + #ended.dead) / 2
flush()
local t, d, w = finish()
return { t, d, w, n }
