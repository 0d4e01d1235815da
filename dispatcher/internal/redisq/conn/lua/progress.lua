-- progress: the texts of :progress, which no other part takes apart. It is put behind common. It takes no arguments of its
-- own: ARGV[3..] is the script's.
-- needs: common(find, format, match, score_ms)

local NO_MORE_PROGRESS = ' 0 0' -- beside, job
local MOST_PROGRESS, MOST_ATTEMPTS = 256, 2147483647 -- bytes and attempts; a text with more is not ours

-- parse_progress reads a text of :progress: attempts, base, deaths, status, asked, reason. It also returns more, the text of
-- the fields after these, which scripts write back unchanged, and the first of those fields, beside.
local function parse_progress(text)
  if not text then return 0, 0, 0, 0, 0, '-', NO_MORE_PROGRESS, 0 end
  local a, b, d, s, q, r, more, e = match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+)( (%d+) %d+.*)$')
  if not a or #text > MOST_PROGRESS then return 0, 0, 0, 0, 0, '-', NO_MORE_PROGRESS, 0 end
  a, b, d, s, q, e = tonumber(a), tonumber(b), tonumber(d), tonumber(s), tonumber(q), tonumber(e)
  if b + e > a or math.max(a, d, s) > MOST_ATTEMPTS or q >= SANE then return 0, 0, 0, 0, 0, '-', NO_MORE_PROGRESS, 0 end
  return a, b, d, s, q, r, more, e
end

-- progress_text writes a text of :progress.
local function progress_text(a, b, d, s, q, r, more) return format('%d %d %d %d %.0f %s%s', a, b, d, s, q, r, more) end

-- with_beside writes the field beside of more.
local function with_beside(more, n) return (string.gsub(more, '^ %d+', ' ' .. n)) end

-- waiting_status returns the status of a delivery that waits: retrying after a failed attempt of its ladder, else scheduled.
local function waiting_status(text)
  local attempts, base, _, _, _, _, _, beside = parse_progress(text)
  return attempts - beside > base and 'retrying' or 'scheduled'
end

-- is_suspect reports whether two holders of a delivery died without a settle between. Its number of deaths says then how its
-- attempt began by its present lease (reap.lua).
local function is_suspect(text)
  if not text or not find(text, '^%d+ %d+ [^01]') then return false end
  local _, _, deaths = parse_progress(text)
  return deaths >= 2
end

-- with_success adds the first success of a delivery to more: when, with which status and in which attempt. That stays, whatever
-- the resend brings.
local function with_success(more, at, status, number)
  return find(more, '^ %d+ %d+%+?$') and format('%s %s %d %d', more, score_ms(at), status, number) or more
end

-- without_snoozes removes the count of snoozes at the end of more (verdict.lua), because a new ladder begins.
local function without_snoozes(more) return (string.gsub(more, ' z%d+$', '')) end

-- job_of_more returns the number of the job in more, with_job writes it. sent: the delivery belongs to the job from now on,
-- until it ends or another job sends it. Without a job, with_job says that the delivery belongs to none.
local function job_of_more(more) return match(more, '^ %d+ (%d+)') end
local function with_job(job, more, sent)
  if not job then return (string.gsub(more, '^( %d+ %d+)%+', '%1')) end
  return (string.gsub(more, '^( %d+ )%d+%+?', '%1' .. job.number .. (sent and '+' or '')))
end

-- job_of_progress returns the number of the job in a text of :progress.
local function job_of_progress(text)
  local _, _, _, _, _, _, more = parse_progress(text)
  return job_of_more(more)
end

-- sending_job returns the job to which a delivery belongs, nil for none, and the text after the delivery left the job.
local function sending_job(text)
  if not text or not find(text, '+', 1, true) then return nil end
  local before, number, behind = match(text, '^(%d+ %d+ %d+ %d+ %d+ %S+ %d+ (%d+))%+(.*)$')
  if before then return number, before .. behind end
end
