-- begun: note that the attempt at a suspect begins, so that the death of its holder counts.
--
-- ARGV[3] delivery
-- ARGV[4] leased  ms when the caller leased it
-- returns now, due, weight, 1 noted, or there is no progress and so no suspect, 0 the caller has no such lease any more
local BEGUN = 3 -- as reap has it
local delivery, leased = ARGV[3], tonumber(ARGV[4])
local score = call('ZSCORE', LEASES .. by, delivery)
if not score or floor(tonumber(score)) ~= leased then return { micros, before_due, weighs(before_weight), 0 } end
call('DEL', tag)
local text = sure('HGET', PROGRESS, delivery)
if text then -- a late first success leaves none: an entry of no attempts would hide it
  local a, b, _, s, q, r, more = progress(text)
  sure('HSET', PROGRESS, delivery, progressed(a, b, BEGUN, s, q, r, more))
end
return { micros, before_due, weighs(before_weight), 1 }
