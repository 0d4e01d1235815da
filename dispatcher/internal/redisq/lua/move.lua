-- move: make ready what is due, the earliest first.
--
-- ARGV[3] most  most deliveries to move
-- returns now, due, weight
local due = call('ZRANGEBYSCORE', DUE, '-inf', now, 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[3]))
local deliveries, pushes, order = {}, {}, {}
for i = 1, #due, 2 do
  local lane, id = parts(due[i])
  deliveries[#deliveries + 1] = due[i]
  if not pushes[lane] then
    pushes[lane] = {}
    order[#order + 1] = lane
  end
  pushes[lane][#pushes[lane] + 1] = num(due[i + 1]) .. ':' .. id
end
if #deliveries == 0 then return { finish() } end
load(order)

each('ZREM', DUE, deliveries)
for _, text in ipairs(call('HMGET', PROGRESS, unpack(deliveries))) do
  count(waits(text), -1)
end
count('ready', #deliveries)
for _, lane in ipairs(order) do
  local l = lanes[lane]
  each('RPUSH', READY .. lane, pushes[lane])
  if queued(l) == #pushes[lane] then l.place = true end
end
return { finish() }
