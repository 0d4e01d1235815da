-- restore_hold: begin to put an archive back into this partition, or end that. Meanwhile nothing is attempted, and schedule
-- takes nothing. A repeat changes nothing.
-- needs: common(at_now, call, first_write, match, sure, tag, write_log), limits(pauses_all), lane_state(all_paused),
--   sums(sums), finish(before_weight, finish, hint_weight)
--
-- ARGV[3] begin  1, or 0: all lanes are as they were before, or as somebody asked since
-- returns now, due, weight
first_write()
all_paused = pauses_all(call('HGET', LIMITS, '*'))
before_weight = hint_weight(before_weight)
local was = sure('HGET', ARCHIVE, 'restoring')
if ARGV[3] == '1' and not was then
  sure('HSET', ARCHIVE, 'restoring', all_paused and 'held' or 'free')
  sure('HSET', LIMITS, '*', '0 0 0 0 p')
  sure('HSETNX', HELD, '*', 'p ' .. at_now .. ' system')
  all_paused = true
elseif ARGV[3] == '0' and was then
  sure('HDEL', ARCHIVE, 'restoring')
  if was ~= 'held' then
    sure('HDEL', LIMITS, '*')
    sure('HDEL', HELD, '*')
    all_paused = false
    sums.takeable[1] = '*'
  end
  if match(tag, ':0}$') and sure('HEXISTS', ARCHIVE, 'p') == 1 then write_log('k', '* 0 ' .. (all_paused and 'p' or '-')) end
end
return { finish() }
