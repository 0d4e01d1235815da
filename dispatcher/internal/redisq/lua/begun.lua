-- begun: note that the attempt at a suspect begins, so that the death of its holder counts.
-- needs: common(by, call, first_write, floor, micros, sure), progress(parse_progress, progress_text),
--   finish(before_due, before_weight, hint_weight)
--
-- ARGV[3] delivery
-- ARGV[4] leased  ms when the caller leased it
-- ARGV[5] beside  1: other code of the caller runs beside it, which may end its holder too; else 0
-- returns now, due, weight, 1 noted, or there is no progress and so no suspect, 0 the caller has no such lease any more
local BEGUN, BESIDE, ALONE, BEGUN_ALONE = 3, 4, 5, 6 -- as reap has them
local delivery, leased = ARGV[3], tonumber(ARGV[4])
local score = call('ZSCORE', LEASES .. by, delivery)
if not score or floor(tonumber(score)) ~= leased then return { micros, before_due, hint_weight(before_weight), 0 } end
first_write()
local text = sure('HGET', PROGRESS, delivery)
if text then -- a late first success leaves none: an entry of no attempts would hide it
  local a, b, deaths, s, q, r, more = parse_progress(text)
  local begun = ARGV[5] == '1' and BESIDE or deaths == ALONE and BEGUN_ALONE or BEGUN
  sure('HSET', PROGRESS, delivery, progress_text(a, b, begun, s, q, r, more))
end
return { micros, before_due, hint_weight(before_weight), 1 }
