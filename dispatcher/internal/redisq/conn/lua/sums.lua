-- sums: the counts and the log lines of a script, which finish writes. It is put behind common. It takes no arguments of its
-- own: ARGV[3..] is the script's.
--
-- Fields of sums: counts, buried and ends are added to the hashes of these names. log has the lines for :attempts. died has
-- the deaths that finish returns to the caller. takeable are the lanes that came to :pulls, which finish publishes. watched
-- are the deliveries whose message expires (expiry.lua). readied and parked are true if a delivery became ready, or if
-- another script changed :parked. due is the earliest time of :due, and kept says that it is so at the end too. lightest is
-- the weight of the lightest lane, until listed says that :lanes has changed. whole is true if the script has seen that the
-- partition is not torn, and that some keys which mostly do not exist do not.
local sums = {
  counts = {}, buried = {}, ends = {}, log = {}, died = {}, takeable = {}, watched = {},
  due = 0, kept = false, lightest = -1, listed = false, whole = false,
}
local function add_to(list, field, n) list[field] = (list[field] or 0) + n end
local function count(status, n) add_to(sums.counts, status, n) end
local function count_dead(lane, reason, n)
  add_to(sums.buried, lane .. ' ' .. reason, n)
end

-- log_line adds a line to the log of attempts.
local function log_line(delivery, verdict, status, took, number, reason)
  local log = sums.log
  log[#log + 1] = delivery .. ' ' .. verdict .. ' ' .. status .. ' ' .. took .. ' ' .. number .. ' ' .. reason
end

-- append_pair appends two values to a list for in_chunks: a score or a field, and its member or value.
local function append_pair(list, score, value)
  local n = #list
  list[n + 1], list[n + 2] = score, value
end
