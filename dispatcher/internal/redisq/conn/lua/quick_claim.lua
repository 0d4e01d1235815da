-- quick_claim: the usual call of claim: from lanes that nothing holds up, and no delivery may end or is a suspect. It is put behind
-- quick and turns. Its ARGV is claim's.
-- needs: common(at_now, by, call, earliest, find, first_write, lightest, micros, read_fields, sooner, sub, tag),
--   leases(write_leases), turns(give_turns, take_turns), quick(finish_usual, usual_lanes, usual_ready)

-- claim_quick writes what claim would write, and returns what claim would return.
local function claim_quick()
  local any = call('EXISTS', tag, FENCED, MARKS, EXPIRING, PARKED) > 0
  if any and (call('EXISTS', tag, MARKS, EXPIRING) > 0 or call('ZSCORE', FENCED, by)) then return nil end
  local most, free_now = tonumber(ARGV[3]), tonumber(ARGV[4])
  local lightest_names = call('ZRANGE', LANES, 0, most - 1)
  if #lightest_names == 0 then
    return { micros, sooner(earliest(DUE), any and earliest(PARKED) or 0), -1, 0, 0, 0, {} }
  end
  if free_now <= 0 then return nil end
  local by_name, list = {}, {}
  local function read_usual(few)
    local more = usual_lanes(few)
    for i = 1, more and #more or 0 do
      local l = more[i]
      if l.pull then return false end
      by_name[l.name], list[#list + 1] = l, l
    end
    return more
  end
  local function room_usual(l) return math.min(l.window, l.top) - l.flying end
  local turns, given, lists, stale = give_turns(lightest_names, most, free_now, by_name, read_usual, room_usual)
  if not turns or #turns == 0 then return nil end
  local taken, dues_of, ids_of = take_turns(turns, lists)
  local n, bytes = #taken, 0
  local texts = read_fields(PROGRESS, taken)
  local records = ARGV[7] ~= '1' and call('HMGET', MESSAGES, unpack(ids_of)) or NONE
  for k = 1, n do
    if texts[k] and not find(texts[k], '^%d+ %d+ [01] ') then return nil end -- it may be a suspect
    if records ~= NONE then
      local record = records[k]
      if not record or #record <= DIGEST or sub(record, 29, 34) ~= NEVER then return nil end
      bytes = bytes + #record
    end
  end
  if bytes > tonumber(ARGV[5]) then return nil end
  for i = 1, #list do
    if list[i].place and not usual_ready(list[i]) then return nil end
  end
  local parked_was, lightest_was, due_was = any and earliest(PARKED) or 0, lightest(), earliest(DUE)

  -- All is known. From here on claim_quick writes.
  local facts, new_leases = {}, {}
  local reply = { 0, 0, 0, 0, 0, stale, facts }
  first_write(false, true)
  for l, many in pairs(given) do call('LTRIM', READY .. l.name, many, -1) end
  for k = 1, n do
    new_leases[2 * k - 1], new_leases[2 * k] = at_now, taken[k]
    local at = 4 * k + 4
    reply[at], reply[at + 1], reply[at + 2], reply[at + 3] = taken[k], dues_of[k], texts[k] or false, records[k] or false
  end
  write_leases(new_leases)
  for i = 1, #list do
    local l = list[i]
    if find(l.name, 'ep_', 1, true) == 1 then facts[#facts + 1], facts[#facts + 2] = l.name, l.version end
    if l.slow == UNKNOWN and l.flying > l.had then facts[#facts + 1], facts[#facts + 2] = l.name, '?' end
  end
  reply[1], reply[2], reply[3] = finish_usual(list, { ready = -n, in_flight = n }, due_was, parked_was, lightest_was, due_was)
  return reply
end
local quickly = claim_quick()
if quickly then return quickly end
