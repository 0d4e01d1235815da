-- messages: where the messages of a call of schedule begin in its arguments, and how they are named to an archive. It is put behind
-- common, before schedule and its quick part. Its ARGV is schedule's.
-- needs: common(add_counts, call, sub, write_log)

local told = ARGV[6] and sub(ARGV[6], 1, 1) == '\n' and ARGV[6] -- no id begins so
local first_message = told and 7 or 6

-- log_accepted names the stored messages, a list of ids and records, to the archive: what the call told of them, the answer, and
-- the bytes that they take. A message that the log could not name would never come there, so then none is kept.
local function log_accepted(stored_now, answer_words, bytes)
  local logged, why = pcall(write_log, 'a', sub(told, 2), 'w', answer_words, 'b', bytes)
  if not logged then
    for i = 1, #stored_now, 2 do call('HDEL', MESSAGES, stored_now[i]) end
    error(why, 0)
  end
  add_counts(ARCHIVE, { b = bytes })
end
