-- busy_lanes: look for the lanes in which most waits, and for what is ready the longest, a page of all lanes at a time.
--
-- ARGV[..] after those of read: cursor of the scan ("0" at first), about how many to look at, fewest that wait in a lane that
-- is told, most lanes to tell
-- returns now, due, weight, next cursor ("0" at the end), ms since when the oldest is ready (0: nothing is), then for each
-- lane told: lane, in flight, waiting
local fewest, most_told = tonumber(ARGV[rest + 2]), tonumber(ARGV[rest + 3])
local scan = call('HSCAN', IN, ARGV[rest], 'COUNT', ARGV[rest + 1])
local oldest, told = 0, {}
for i = 1, #scan[2], 2 do
  local name, text = scan[2][i], scan[2][i + 1]
  local flying, waiting = match(text, '^(%d+) (%d+)$')
  if flying and #text < 20 and text ~= '0 0' then
    flying, waiting = tonumber(flying), tonumber(waiting)
    local head = waiting > 0 and safely('LINDEX', READY .. name, 0)
    local due = head and match(head, '^(%d+):')
    due = due and tonumber(due)
    if due and due < SANE and (oldest == 0 or due < oldest) then oldest = math.max(due, 1) end
    if waiting >= fewest then told[#told + 1] = { name, flying, waiting } end
  end
end
table.sort(told, function(a, b)
  if a[3] ~= b[3] then return a[3] > b[3] end
  if a[2] ~= b[2] then return a[2] > b[2] end
  return a[1] < b[1]
end)
local answer = { micros, before_due, weighs(before_weight), scan[1], num(oldest) }
for i = 1, math.min(#told, most_told) do
  for _, value in ipairs(told[i]) do answer[#answer + 1] = value end
end
return answer
