-- position: the order of entries of a log, by their ids. It is put before scripts that write or read how far the log is archived. It takes no arguments of its own: ARGV[3..] is the script's.

-- ms_and_seq parses an id. It returns nil for a malformed id.
local function ms_and_seq(id)
  local ms, seq = string.match(id or '', '^(%d+)%-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

-- is_later reports whether an entry is behind another one. A malformed id is before all.
local function is_later(id, other)
  local ms, seq = ms_and_seq(id)
  local before, n = ms_and_seq(other)
  if not ms or not before then return ms ~= nil end
  return ms > before or ms == before and seq > n
end

-- next_id is the first id behind an entry.
local function next_id(id)
  local ms, seq = ms_and_seq(id)
  return string.format('%.0f-%.0f', ms, seq + 1)
end
