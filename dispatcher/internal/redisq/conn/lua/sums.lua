-- sums: the counts and the log lines of a script, which finish writes. It is put behind common. It takes no arguments of its
-- own: ARGV[3..] is the script's.
-- needs: common(at_now, call, find, sure)
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

-- add_counts adds numbers to fields of a hash. A field that is no number begins again, because doctor recounts it.
local function add_counts(hash, deltas)
  for field, n in pairs(deltas) do
    if n ~= 0 then
      local sum = redis.pcall('HINCRBY', hash, field, n)
      if type(sum) == 'table' then
        local text = sum.err
        if string.find(text, 'integer', 1, true) or string.find(text, 'overflow', 1, true) or string.find(text, 'WRONGTYPE', 1, true) then
          sure('HDEL', hash, field) -- any other error, such as a missing right, leaves the count as it is
        end
        sum = call('HINCRBY', hash, field, n)
      end
      if sum == 0 then call('HDEL', hash, field) end
    end
  end
end

-- write_log adds an entry to :attempts, which trim cuts. It begins the stream again if the last entry has the highest possible
-- id, or if the key is no stream. If the new id is of the present ms, no clock was ahead of this one, because ids never go
-- back. Any other error, such as a missing right, leaves the entries there: the archive may not have read them.
local function write_log(...)
  local id = redis.pcall('XADD', ATTEMPTS, '*', ...)
  if sums.newest == nil then sums.newest = type(id) == 'string' and find(id, at_now .. '-', 1, true) == 1 end
  if type(id) == 'table' and id.err then
    local useless = string.find(id.err, 'last possible', 1, true) or string.find(id.err, 'WRONGTYPE', 1, true)
    if useless then call('DEL', ATTEMPTS) end
    call('XADD', ATTEMPTS, '*', ...)
    sure('HSET', ARCHIVE, 'cut', at_now .. '-0')
  end
end
