-- lease_ready: the leases of claim and take, from the heads of ready lists. It is put behind order. It takes no arguments of
-- its own: ARGV[3..] is the script's.
-- needs: common(at_now, call, created_at, expires_at, micros, now, num, read_fields, sure), slots(return_token),
--   progress(is_suspect, parse_progress, progress_text, waiting_status), sums(append_pair, count, sums),
--   ends(drop_delivery, end_dead_unattempted, end_marked, progress_entries, removed_marks), order(leave_line)

-- postpone_suspect lets a suspect wait because the caller has as many suspects as it may lease. The wait is 0.5 to 3.5 s,
-- different for each suspect, so that few of them come back at a time.
local function postpone_suspect(l, delivery, text, i) -- rare
  l.flying, l.waiting = l.flying - 1, l.waiting + 1
  return_token(l)
  sure('ZADD', DUE, num(now + 500 + (micros + i * 997) % 3000), delivery)
  count(waiting_status(text), 1)
end

-- records_decide reports whether the records decide what becomes of deliveries: some may have expired, belong to a lane that
-- was cut, or are marked.
local function records_decide(given, marks)
  if call('EXISTS', EXPIRING) == 1 then return true end
  for l in pairs(given) do
    if l.limits.cut then return true end
  end
  for _, mark in ipairs(marks) do
    if mark then return true end
  end
  return false
end

-- lease_ready leases deliveries from the heads of their ready lists: of each lane the number in given. Some of them end
-- instead. It appends the others to the answer: delivery, due, progress (false: none), record (false: not read). It returns
-- the leases, as times and names, the number without a record, and the number of suspects that have to wait. taken: names,
-- dues, ids and owners. The states of the owners count them as in flight already. suspects: how many of them may be leased
-- (nil: any). apart: the lanes with a suspect already (nil: the lane does not matter). unread: the caller reads the records
-- itself, and the answer has none, unless records decide. Lua hashes each byte of a record that it reads, which costs more
-- than all else that a lease needs.
local function lease_ready(taken, given, most_bytes, answer)
  local names, dues, ids, owners = taken.names, taken.dues, taken.ids, taken.owners
  local k = #names
  local texts, marks = read_fields(PROGRESS, names), sums.whole and NONE or read_fields(MARKS, names)
  local unread = taken.unread and not records_decide(given, marks)
  -- The records are read before the first write, because a script that dies until then has changed nothing. Deliveries
  -- stay in the list if their records are too much for one answer.
  local records, bytes = unread and NONE or call('HMGET', MESSAGES, unpack(ids)), 0
  for i = 1, unread and 0 or k do bytes = bytes + #(records[i] or '') end
  while bytes > most_bytes and k > 1 do
    local l = owners[k]
    l.flying, l.waiting, l.ready, l.emptied = l.flying - 1, l.waiting + 1, l.ready + 1, false
    return_token(l)
    given[l], names[k], bytes, k = given[l] - 1, nil, bytes - #(records[k] or ''), k - 1
  end
  for l, many in pairs(given) do
    if many > 0 then call('LTRIM', READY .. l.name, many, -1) end
  end
  local leases, nleases, lost, later, n = {}, 0, 0, 0, #answer
  local suspects, apart = taken.suspects or k, taken.apart

  -- spared gives the permit and the token of a delivery without an attempt back.
  local function spared(i, l)
    l.flying = l.flying - 1
    return_token(l)
    leave_line(l, ids[i], records[i])
  end

  for i, delivery in ipairs(names) do
    local record, l, text = records[i], owners[i], texts[i]
    local suspect = text and is_suspect(text)
    local expiry = record and #record > DIGEST and expires_at(record) or 0
    if not unread and (not record or #record <= DIGEST) then
      lost = lost + 1
      if marks[i] then removed_marks[#removed_marks + 1] = delivery end
      drop_delivery(delivery, ids[i], record)
      spared(i, l)
    elseif marks[i] then
      count(end_marked(delivery, marks[i], (parse_progress(text))), 1)
      spared(i, l)
    elseif expiry > 0 and expiry <= now or l.limits.cut and created_at(record) <= l.limits.cut then
      end_dead_unattempted(l, delivery, text, expiry > 0 and expiry <= now and 'expired' or 'disabled')
      spared(i, l)
    elseif suspect and (suspects <= 0 or apart and apart[l.name]) then
      later = later + 1
      postpone_suspect(l, delivery, text, i)
    else
      if suspect then
        suspects = suspects - 1
        if apart then apart[l.name] = true end
        local a, b, deaths, s, q, r, more = parse_progress(text)
        append_pair(progress_entries, delivery, progress_text(a, b, deaths > 4 and 5 or 2, s, q, r, more)) -- its attempt has not begun by this lease
      end
      leases[nleases + 1], leases[nleases + 2] = at_now, delivery
      nleases = nleases + 2
      answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = delivery, dues[i], text or false, record or false
      n = n + 4
    end
  end
  count('ready', -#names)
  count('in_flight', nleases / 2)
  return leases, lost, later
end
