-- doctor_walk: read a page of the store and return suspects of faults. It changes nothing. Work continues between
-- two pages, so each suspect has to be judged.
-- needs: common(body_apart, body_of, call, created_at, expires_at, find, key_of, lane_of, lanes_of, match, micros, num,
--   sub), subject(token_of), progress(parse_progress), finish(before_due, before_weight, hint_weight), server(server),
--   doctor(args_from, has_ended, how_named, in_line, let_wait_ahead, over_or_none, places_of, readable, unfound,
--   unowned)
--
-- ARGV[..] after the arguments of doctor: kind (messages, due, done, dead, cancelled, leases, taken, behind, ready, progress,
--   marks, tokens, expiring, unopened, fan, seen, history, of), of what (an instance, a lane, a lane and its key), cursor ("0" at first; ready: how many of the tail were
--   read), about how many to read; history: deliveries; messages: the ids of the caller's keys
-- returns now, due, weight, next cursor ("0" at the end), the process that it is valid for, bytes of the records that were
--   read, the read elements (else than of ready only their number), then for each suspect a letter and a name: s a delivery, n one that is nowhere but perhaps
--   in its ready list, m a message, o a delivery that its
--   tenant's lists lack, x a member that names no delivery, k a message whose headers need another key, w a delivery
--   that was accepted by a clock that was ahead, and waits for its time
local kind, of, cursor, most = ARGV[args_from], ARGV[args_from + 1], ARGV[args_from + 2], tonumber(ARGV[args_from + 3])
local answer = { micros, before_due, hint_weight(before_weight), '0', server(), 0, 0 }
local bytes = 0

local function report(letter, name)
  answer[#answer + 1] = letter
  answer[#answer + 1] = name
end
local function record_of(id)
  local record = call('HGET', MESSAGES, id)
  bytes = bytes + (record and #record or 0)
  return record
end

-- visit returns a delivery that is found in a place, unless it is only there and belongs there.
local function visit(delivery, place)
  local lane, id = string.match(delivery, '^([^:]+):(.+)$')
  if not lane then return report('x', delivery) end
  local record = record_of(id)
  local list = places_of(delivery, lane, id, record, place == 'behind' and of)
  local n = #list + (place == 'ready' and 1 or 0)
  if how_named(lane, id, record) ~= 'yes' or n > 1 then return report('s', delivery) end
  if place == 'marks' or place == 'progress' or place == 'history' then
    if place == 'marks' and n == 1 and list[1][1] ~= 'leased' then report('s', delivery) end
    return
  end
  if place == 'taken' and not match(call('HGET', TOKENS, delivery) or '', '^%d+ %S+ %S+ %d+$') then return report('s', delivery) end
  if n == 0 then return report('n', delivery) end -- the first of a line
  if place == 'due' then
    local how = let_wait_ahead(delivery, record)
    if how == 'failed' then return report('s', delivery) elseif how then report('w', delivery) end
  end
  if not has_ended(place) and expires_at(record) > 0 and not call('ZSCORE', EXPIRING, delivery) then return report('s', delivery) end
  if place == 'behind' and has_ended(list[1][1]) then return report('s', delivery) end
  if place == 'dead' then
    local _, _, _, _, _, reason = parse_progress(call('HGET', PROGRESS, delivery))
    if reason == '-' then report('s', delivery) end
  elseif not has_ended(place) and key_of(record) ~= NO_KEY and not in_line(lane, id, record) then
    report('s', delivery)
  end
end

-- message returns faults of a record that its deliveries do not show.
local function message(id, record)
  bytes = bytes + #record
  local seen = call('ZSCORE', SEEN, id)
  if #record <= DIGEST then
    if not seen or call('HEXISTS', FAN, id) == 1 then report('m', id) end
    return
  end
  local left = 0
  for _, lane in ipairs(readable(record) and lanes_of(id, record) or {}) do
    if lane ~= '' and sub(lane, 1, 1) ~= '-' then
      left = left + 1
      local n = #places_of(lane .. ':' .. id, lane, id, record)
      local at = call('ZSCORE', SHELF .. lane, id)
      if n ~= 1 then report(n == 0 and 'n' or 's', lane .. ':' .. id) end
      if tonumber(at or nil) ~= created_at(record) then report('s', lane .. ':' .. id) end
      if unowned(lane, id, record) then report('o', lane .. ':' .. id) end
    end
  end
  local bodiless = body_apart(record) and call('HEXISTS', BODIES, body_of(id, record)) == 0
  local token, digits = token_of(record)
  if left == 0 or seen or bodiless or token and unfound(token, id, digits) then report('m', id) end
end

local function scan(command, key)
  local page = call(command, key, cursor, 'COUNT', most)
  answer[4] = page[1]
  answer[7] = #page[2] / 2
  return page[2]
end

local zsets = { due = DUE, done = DONE, dead = DEAD, cancelled = CANCELLED, leases = LEASES .. of, taken = TAKEN }
if kind == 'messages' then
  local page, own = scan('HSCAN', MESSAGES), {}
  for i = args_from + 4, #ARGV do own[ARGV[i]] = true end
  for i = 1, #page, 2 do
    message(page[i], page[i + 1])
    local key = find(page[i + 1], 'seal1.', 1, true) and match(page[i + 1], 'seal1%.(%x+)%.')
    if key and not own[key] then report('k', page[i]) end
  end
elseif zsets[kind] then
  local page = scan('ZSCAN', zsets[kind])
  for i = 1, #page, 2 do visit(page[i], kind) end
elseif kind == 'behind' then
  local page, lane = scan('ZSCAN', BEHIND .. of), lane_of(of)
  for i = 1, #page, 2 do visit(lane .. ':' .. page[i], kind) end
elseif kind == 'of' then
  local page = scan('ZSCAN', SHELF .. of)
  for i = 1, #page, 2 do
    if how_named(of, page[i], record_of(page[i])) ~= 'yes' then report('s', of .. ':' .. page[i]) end
  end
elseif kind == 'ready' then
  -- From the tail, because claims and takeovers work at the head and do not shift it. So no element that stays in the
  -- list is missed.
  local skip = tonumber(cursor)
  local page = call('LRANGE', READY .. of, -skip - most, -skip - 1)
  for _, element in ipairs(page) do
    local id = string.match(element, '^%d+:(.+)$')
    if id then visit(of .. ':' .. id, kind) else report('x', element) end
  end
  answer[4] = #page == most and num(skip + most) or '0'
  answer[7] = page
elseif kind == 'progress' or kind == 'marks' then
  local page = scan('HSCAN', kind == 'marks' and MARKS or PROGRESS)
  for i = 1, #page, 2 do
    visit(page[i], kind)
    local _, _, _, _, _, reason = parse_progress(kind == 'progress' and page[i + 1])
    if reason ~= '-' and not call('ZSCORE', DEAD, page[i]) then report('s', page[i]) end
  end
elseif kind == 'tokens' then
  local page = scan('HSCAN', TOKENS)
  for i = 1, #page, 2 do
    local lane, id = string.match(page[i], '^([^:]+):(.+)$')
    if not lane or over_or_none(page[i], lane, id, record_of(id)) then report('s', page[i]) end
  end
elseif kind == 'expiring' or kind == 'unopened' then
  local page = scan('ZSCAN', kind == 'expiring' and EXPIRING or UNOPENED)
  for i = 1, #page, 2 do
    local lane, id = string.match(page[i], '^([^:]+):(.+)$')
    if not lane then report('x', page[i]) elseif over_or_none(page[i], lane, id, record_of(id)) then report('s', page[i]) end
  end
elseif kind == 'fan' then
  local page = scan('HSCAN', FAN)
  for i = 1, #page, 2 do
    local record = record_of(page[i])
    if not record or #record <= DIGEST then report('m', page[i]) end
  end
elseif kind == 'seen' then
  local page = scan('ZSCAN', SEEN)
  for i = 1, #page, 2 do
    local record = record_of(page[i])
    if not record or #record > DIGEST then report('m', page[i]) end
  end
else
  for i = args_from + 4, #ARGV do visit(ARGV[i], kind) end
end
answer[6] = bytes
return answer
