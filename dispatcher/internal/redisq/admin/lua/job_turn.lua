-- job_turn: begin a job in a partition, or give it to another turn. A step of a lower turn changes nothing from then on.
-- needs: common(first_write, match, micros, now, num, sure), finish(before_due, before_weight, hint_weight)
--
-- ARGV[3] number  of the job
-- ARGV[4] turn
-- ARGV[5] since   ms when it began; 0: it begins now
-- returns now, due, weight, its text in :jobs; empty: it has a higher turn already
local number, turn, since = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
first_write()
local had, began, rest = match(sure('HGET', JOBS, number) or '', '^(%d+) (%d+) (%d+ %d+ %d+ %d+ %d+ .*)$')
if had and tonumber(had) > turn then return { micros, before_due, hint_weight(before_weight), '' } end
if not had then began, rest = num(since > 0 and since or now), '0 0 0 0 0 ' end
local text = num(turn) .. ' ' .. began .. ' ' .. rest
sure('HSET', JOBS, number, text)
return { micros, before_due, hint_weight(before_weight), text }
