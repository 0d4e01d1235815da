-- messages: the messages of a call of schedule, if they are usual. It is put behind common, before schedule and its quick part. Its
-- ARGV is schedule's.
-- needs: common(add_counts, call, find, only_lane, sub, write_log)

local ids, names, records = {}, {}, {}
local told = ARGV[6] and sub(ARGV[6], 1, 1) == '\n' and ARGV[6] -- no id begins so
local first_message = told and 7 or 6

-- Most messages have one lane, that of a URL or an endpoint, and neither an expiry, an ordering key, a subject, a body apart nor
-- a time. Where all are so, the call is usual, and nothing else is read of them. Behind the times, such a record begins with
-- usual_head: no expiry, no key, and the lane. So it is seen at once that a message goes to the same lane as the one before.
-- names has the lane of each run of messages of one lane, run_ends its last message.
local usual, run_ends = true, {}
do
  local at, many, runs, usual_head, kind_at, last_when = first_message, 0, 0, nil, nil, nil
  while ARGV[at] and usual do
    local record, when = ARGV[at + 1], ARGV[at + 2]
    if not usual_head or find(record, usual_head, 29, true) ~= 29 then
      local lane = only_lane(record)
      usual_head, kind_at = NEVER .. NO_KEY .. string.char(#lane) .. lane, 47 + #lane
      usual = lane ~= '' and find(record, usual_head, 29, true) == 29
      runs = runs + 1
      names[runs] = lane
    end
    if when ~= last_when then
      if find(when, '+', 1, true) ~= 1 then usual = false end
      last_when = when
    end
    local kind = string.byte(record, kind_at) -- of the first field of the meta: 12 a body apart, 16 a subject
    if kind == 12 or kind == 16 then usual = false end
    many = many + 1
    ids[many], records[many], run_ends[runs] = ARGV[at], record, many
    at = at + 3
  end
end

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
