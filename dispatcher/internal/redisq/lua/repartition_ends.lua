-- repartition_ends: add what partitions that are no more counted of ends to what this one did. To do so again changes
-- nothing: what was added is gone.
--
-- ARGV[..] none
-- returns how many fields were added
local n, all = 0, call('HGETALL', ENDS)
for i = 1, #all, 2 do
  local own = match(all[i], '^(%S+ %S+) %d+$') -- behind it the number of the partition that it is of
  if own then
    add(ENDS, { [own] = tonumber(all[i + 1]) or 0 })
    call('HDEL', ENDS, all[i])
    n = n + 1
  end
end
return { n }
