-- purge: forget dead deliveries for a job. The ids of their messages stay known, so that a caller's repeat is no new
-- message.
-- needs: common(first_write, split, sure), progress(parse_progress), sums(count, count_dead, log_line), finish(finish),
--   cut(forget_deliveries, limit_by_fans), job(PASSED, count_code, parse_job, read_job, write_job)
--
-- ARGV[3] job, ARGV[4..] deliveries; job: as job.lua reads it
-- returns now, due, weight, the job's text (empty: the turn is another's, and nothing changed), then for each: 1 forgotten
--   now, 0 not dead any more, or since the job began, -9 left for another call, which has less to read
local job, deliveries = parse_job(ARGV[3]), {}
for i = 4, #ARGV do
  deliveries[#deliveries + 1] = ARGV[i]
end
first_write()
local mine = read_job(job)
if not mine or #deliveries == 0 then
  local t, d, w = finish()
  return { t, d, w, mine and write_job(job) or '' }
end

local places, dead = sure('ZMSCORE', DEAD, unpack(deliveries)), {}
for i, delivery in ipairs(deliveries) do
  if places[i] and tonumber(places[i]) <= job.since then dead[#dead + 1] = delivery end
end
dead = limit_by_fans(dead)
local texts, going = #dead > 0 and sure('HMGET', PROGRESS, unpack(dead)) or NONE, {}
for i, delivery in ipairs(dead) do
  local attempts, _, _, _, _, reason = parse_progress(texts[i])
  going[delivery] = true
  count_dead((split(delivery)), reason, -1)
  log_line(delivery, 'forgotten', 0, 0, attempts, '-')
end
forget_deliveries(DEAD, dead, true)
count('dead', -#dead)

local codes = {}
for i, delivery in ipairs(deliveries) do
  local later = not going[delivery] and places[i] and tonumber(places[i]) <= job.since
  codes[i] = later and PASSED or count_code(job, going[delivery] and 1 or 0, delivery)
end
local told = write_job(job)
local t, d, w = finish()
return { t, d, w, told, unpack(codes) }
