-- read: what look and list share, put between common and each of them: where a delivery stands. They change nothing.
--
-- ARGV[3] count, ARGV[4..] the instances' names
local k = tonumber(ARGV[3])
local instances = {}
for i = 4, 3 + k do instances[#instances + 1] = ARGV[i] end
local rest = 4 + k

-- stands answers the status of a delivery, the first that holds, and its time in ms: of the end, of the next attempt,
-- of the claim; 0 where it has none.
local function stands(delivery)
  local mark = call('HGET', MARKS, delivery)
  if mark then return mark == 'd' and 'delivered' or 'cancelled', 0 end
  local at = call('ZSCORE', DONE, delivery)
  if at then return 'delivered', at end
  at = call('ZSCORE', DEAD, delivery)
  if at then return 'dead', at end
  at = call('ZSCORE', CANCELLED, delivery)
  if at then return 'cancelled', at end
  at = call('ZSCORE', DUE, delivery)
  if at then return waits(call('HGET', PROGRESS, delivery)), at end
  for _, name in ipairs(instances) do
    at = call('ZSCORE', LEASES .. name, delivery)
    if at then return 'in_flight', at end
  end
  return 'ready', 0
end

-- head cuts the body off a record.
local function head(record)
  local at = 44 + string.byte(record, 43)
  local a, b = string.byte(record, at, at + 1)
  return string.sub(record, 1, at + 1 + a * 256 + b)
end
