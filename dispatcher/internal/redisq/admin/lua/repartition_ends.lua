-- repartition_ends: add the counts of ends of removed partitions to the counts of this one. A repeat changes nothing, because
-- added counts are removed.
-- needs: common(add_counts, call, first_write, match)
--
-- ARGV[..] none
-- returns how many fields were added
first_write(true)
local n, all = 0, call('HGETALL', ENDS)
for i = 1, #all, 2 do
  local own = match(all[i], '^(%S+ %S+) %d+$') -- the number of the removed partition follows
  if own then
    add_counts(ENDS, { [own] = tonumber(all[i + 1]) or 0 })
    call('HDEL', ENDS, all[i])
    n = n + 1
  end
end
return { n }
