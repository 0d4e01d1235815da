-- schedule: store messages, each with its lanes. A delivery that is due is leased at once, if nothing waits before it.
-- needs: common(at_now, body_of, by, call, ceil_now, created_at, deliver_at, expires_at, find, first_addition, format,
--   in_chunks, most_waiting, now, num, only_lane, sub, sure, tag), leases(write_leases), weight(light_enough),
--   messages(first_message, ids, log_accepted, names, records, run_ends, told, usual), tenant(add_tenant_shelf,
--   origin_and_tenant, tenant_shelf), subject(note_subjects, token_of), lane_state(all_paused, lanes, load_lanes,
--   loaded, ready_length), slots(lane_ends, slots, take_tokens, tokens_of), progress(NO_MORE_PROGRESS, progress_text),
--   sums(append_pair, count, log_line, sums), finish(finish), ends(end_dead, end_with_lane, progress_entries,
--   write_ends), order(join_line, last_score, line_of), expiry(set_expiry, watch_expiry)
--
-- ARGV[3] free   free permits of the instance
-- ARGV[4] lease  most deliveries to lease to it directly
-- ARGV[5] epoch  of this partition, as the caller knows it. Where it is another one, the data were lost, and nothing is stored
-- ARGV[6]        only if accepted messages are archived: a newline, then of each message its id and lanes, with newlines
--                between. :attempts gets them if something was made
-- ARGV[6..]      for each message: id, record, when ("+ms" after now, "@ms" at a time; * before it if a full lane
--                must not refuse the message; & before that if its body is for :bodies and follows, = if that was
--                staged or is there), then the body, and if the record names no lane the number of lanes and the lanes
-- returns now, due, weight, facts (lane and version of its limits for each lane of an endpoint; lane and ? for each with a
--   lease that never responded), then a text of words, for each message: result (1 new, 2 the same again, 3 other content, 4
--   a lane is full, 5 its body is not there) with a letter for each lane; due ms of the deliveries made; and after 2 created
--   ms, 0 if it is not kept. Letters: d due, r ready, l leased, b behind another, x dead: disabled, o dead: the lane is full,
--   c cancelled: deleted, s there already, f not made: the lane is full
local free, lease, entries = tonumber(ARGV[3]), tonumber(ARGV[4]), {}

-- read_messages reads messages that are not usual.
local function read_messages() -- rare
  local at, many, nnames = first_message, 0, 0
  ids, names = {}, {}
  while ARGV[at] do
    local id, record, when = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local lane, list, fan, body, sign = only_lane(record), false, false, nil, sub(when, 1, 1)
    at = at + 3
    if sign == '&' then
      body, at = ARGV[at], at + 1
    elseif sign == '=' then
      body = true
    end
    if body then
      when = sub(when, 2)
      sign = sub(when, 1, 1)
    end
    if sign == '*' then
      fan, when = true, sub(when, 2)
      sign = sub(when, 1, 1)
    end
    local ms = tonumber(sub(when, 2))
    local due = sign == '@' and math.max(ms, now) or ceil_now + ms -- the time before a message was accepted does not make its attempt late
    if lane == '' then
      list = {}
      for i = 1, tonumber(ARGV[at]) do
        list[i] = ARGV[at + i]
        nnames = nnames + 1
        names[nnames] = list[i]
      end
      at = at + 1 + #list
    else
      nnames = nnames + 1
      names[nnames] = lane
    end
    many = many + 1
    ids[many] = id
    -- lane: the only one; list: several; body: the name of a body that lies apart. The table has eight fields and all are
    -- here: a ninth doubles the memory that Lua sets aside.
    entries[many] = {
      id = id, record = record, lane = lane, list = list, fan = fan, due = due, soon = due <= now or when == '+0', body = body,
    }
  end
end
if not usual then read_messages() end
if #ids == 0 then
  local t, d, w = finish()
  return { t, d, w, {}, '' }
end
load_lanes(names)
if loaded.epoch ~= ARGV[5] then return redis.error_reply('EMPTIED the data of this partition were lost') end
if all_paused and call('HEXISTS', ARCHIVE, 'restoring') == 1 then -- a repeat of a delivered message would be new here
  return redis.error_reply('RESTORING what was archived: not all ids are known yet')
end
sums.whole = call('EXISTS', tag, FENCED) == 0
if lease > 0 and (all_paused or not sums.whole and call('ZSCORE', FENCED, by)) then lease = 0 end

first_addition(false, sums.whole)

-- fresh has the ids and records that this call stores, the tokens of their subjects, whether any delivery was made, and, for the
-- archive, the bytes of the stored records and bodies.
local known, kept, lane_lists, fresh = call('HMGET', MESSAGES, unpack(ids)), {}, {}, { subjects = {}, made = false, bytes = 0 }

-- In a usual call, also all messages are new, and their lanes neither end them nor order them, and have room. kept has the
-- messages that this call stores.
for i = 1, usual and #ids or 0 do
  if known[i] or kept[ids[i]] then usual = false end
  kept[ids[i]] = records[i]
end
for _, l in ipairs(loaded) do
  local limits = l.limits
  if limits.pull or limits.ordered or lane_ends(l) or most_waiting > 0 and l.waiting + #ids > most_waiting then usual = false end
end
if not usual and #entries == 0 then
  kept = {}
  read_messages()
end

local leases, nleases, dues, pushes, nready, nbehind = {}, 0, {}, {}, 0, 0
local first_due = sums.due -- of :due, with the deliveries of this call

local may_lease
do
  local leasable = {} -- lane -> how many more it may have in flight by leases given here

  -- may_lease reports whether a delivery of a lane may be attempted by the caller at once, before any other instance claims it.
  function may_lease(l)
    if nleases >= lease or (l.ready or ready_length(l)) > 0 then return false end
    local most = leasable[l]
    if not most then
      most = l.limits.held == '-' and not l.limits.pull and l.state.till <= now and l.state.egress == 0 and slots(l) or 0
      leasable[l] = most
    end
    return l.flying < most and light_enough(l, free - nleases) and (l.limits.interval == 0 or tokens_of(l) > 0)
  end
end

-- may_lease_it reports that of a delivery. An expired one is not leased; a claim ends it.
local function may_lease_it(e, l)
  if not e.soon or not may_lease(l) then return false end
  local expiry = expires_at(e.record)
  return expiry == 0 or expiry > now
end
local function full(l) return most_waiting > 0 and l.waiting >= most_waiting end

-- refused reports whether a new message is refused because one of its lanes is full. A delivery that is leased or ends at once
-- does not count.
local function refused(e)
  if e.fan then return false end
  for _, name in ipairs(e.list or { e.lane }) do
    local l = lanes[name]
    if full(l) and not lane_ends(l) then
      local key = line_of(l, e.record)
      if (key and last_score(l, key)) or not may_lease_it(e, l) then return true end
    end
  end
  return false
end

local function overflow(l, delivery) -- rare
  end_dead(l, delivery, 'overflow', 0)
  append_pair(progress_entries, delivery, progress_text(0, 0, 0, 0, 0, 'overflow', NO_MORE_PROGRESS))
  log_line(delivery, 'dead', 0, 0, 0, 'overflow')
end

-- digits formats a due time. It caches the last one, because mostly all due times are the same, and to format one costs as much as
-- the rest of its answer.
local digits
do
  local last_due, last_digits
  function digits(ms)
    if ms ~= last_due then last_due, last_digits = ms, format('%d', ms) end
    return last_digits
  end
end

-- shelf_of returns what is added to the shelf of a lane: times and ids. A lane is listed with its tenant if it has no
-- deliveries, as far as this script knows. So a message of a lane in use costs nothing.
local shelves = {} -- by name
local function shelf_of(l, record, queue)
  local list = shelves[l.name]
  if not list then
    list = {}
    shelves[l.name] = list
    if not l.was and not queue then
      local _, owner = tenant_shelf(l.name, record)
      list.owner = owner
    end
  end
  return list
end

-- shelve adds a delivery to the shelf of its lane, and of its tenant in a queue. Messages of one call mostly have one time, and
-- to read it costs as much as the rest.
local accepted, accepted_digits
local function shelve(e, l)
  local queue = l.limits.pull and sub(l.name, 1, 2) == 'q_'
  local list, at = shelf_of(l, e.record, queue), sub(e.record, 17, 22)
  if at ~= accepted then accepted, accepted_digits = at, num(created_at(e.record)) end
  append_pair(list, accepted_digits, e.id)
  if queue then
    local shelf, owner = tenant_shelf(l.name, e.record)
    if not shelf then return end
    shelves[shelf] = shelves[shelf] or { owner = owner }
    append_pair(shelves[shelf], accepted_digits, e.id)
  end
end

-- lease_it leases a delivery to the caller. make_ready lets it wait in the ready list of its lane.
local function lease_it(l, delivery)
  append_pair(leases, at_now, delivery)
  nleases = nleases + 1
  l.flying = l.flying + 1
  if l.limits.interval > 0 then take_tokens(l, 1) end
end
local function make_ready(l, id, due)
  nready = nready + 1
  local list = pushes[l.name]
  if not list then
    list = {}
    pushes[l.name] = list
  end
  list[#list + 1] = (due < now and format('%d', due) or at_now) .. ':' .. id
  l.ready = ready_length(l) + 1
end

-- make puts one delivery where it belongs and returns the letter of the place.
local function make(e, l)
  local delivery = l.name .. ':' .. e.id
  if not l.text and not l.leads then l.leads = origin_and_tenant(e.record) end
  if lane_ends(l) then
    shelve(e, l)
    end_with_lane(l, delivery)
    return l.limits.held == 'x' and 'c' or 'x'
  end
  local key = line_of(l, e.record)
  local behind = key and last_score(l, key)
  local now_leased = not behind and may_lease_it(e, l)
  if not now_leased and full(l) then
    if not e.fan then return 'f' end
    shelve(e, l)
    overflow(l, delivery)
    return 'o'
  end
  shelve(e, l)
  if key then join_line(l, key, e.id) end
  if sub(e.record, 29, 34) ~= NEVER then watch_expiry(delivery, e.record) end -- mostly it does not expire: then this saves two calls
  if now_leased then
    lease_it(l, delivery)
    return 'l'
  end
  l.waiting = l.waiting + 1
  if behind then
    nbehind = nbehind + 1
    return 'b'
  end
  if not e.soon then
    append_pair(dues, digits(e.due), delivery)
    if first_due == 0 or e.due < first_due then first_due = e.due end
    return 'd'
  end
  make_ready(l, e.id, e.due)
  return 'r'
end

local function letter(of_all, e) return string.rep(of_all, e.list and #e.list or 1) end

-- The staged bodies of this call. Their entries in :staged are removed after the first addition: Redis asks for memory
-- at the first write only, and a removal never needs any. Field of :bodies -> whether the body goes too.
local staged = {}

-- unstage lets go a staged body whose message is not kept.
local function unstage(e) -- rare
  if e.body ~= true then return end
  local field = body_of(e.id, e.record)
  if staged[field] == nil then staged[field] = true end
end

-- keep_body makes a staged body the message's, or stores it. It reports whether the body is there.
local function keep_body(e) -- rare
  local field = body_of(e.id, e.record)
  if call('HEXISTS', BODIES, field) == 1 then
    staged[field] = false
  elseif e.body == true then
    return false
  else
    call('HSET', BODIES, field, e.body)
  end
  return true
end

-- accept stores a new message, unless one of its lanes is full. It returns the result and the letters.
local function accept(e)
  if most_waiting > 0 and refused(e) then
    unstage(e)
    return '4' .. letter('f', e)
  end
  if e.body and not keep_body(e) then return '5' .. letter('f', e) end
  kept[e.id] = e.record
  append_pair(fresh, e.id, e.record)
  local token, last = token_of(e.record)
  if token then
    append_pair(fresh.subjects, token, e.id)
    fresh.subjects[#fresh.subjects + 1] = last
  end
  if told then
    local body = e.body == true and call('HSTRLEN', BODIES, body_of(e.id, e.record)) or e.body and #e.body or 0
    fresh.made, fresh.bytes = true, fresh.bytes + #e.record + body
  end
  if not e.list then return '1' .. make(e, lanes[e.lane]) end
  lane_lists[e.id] = table.concat(e.list, ' ')
  local letters = { '1' }
  for i, lane in ipairs(e.list) do letters[i + 1] = make(e, lanes[lane]) end
  return table.concat(letters)
end

-- again adds to a stored message the lanes that it never named. It returns the result and the letters.
local function again(e, old) -- rare
  if e.body then
    if #old <= DIGEST then unstage(e) else keep_body(e) end
  end
  e.record = old
  if #old <= DIGEST then
    e.due = 0
    return '2' .. letter('s', e)
  end
  e.due = math.max(deliver_at(old), now) -- a lane that a repeat adds is due with the first ones, or now if that has passed
  e.soon = e.due <= now
  local fan = lane_lists[e.id] or sure('HGET', FAN, e.id) or only_lane(old)
  local named, letters, more = {}, { '2' }, false
  for lane in string.gmatch(fan, '%S+') do named[string.gsub(lane, '^%-', '')] = true end
  for i, lane in ipairs(e.list or { e.lane }) do
    letters[i + 1] = 's'
    if not named[lane] and not named['*'] then -- *: others were here and are gone, which a repartition left unnamed
      named[lane] = true
      letters[i + 1] = make(e, lanes[lane])
      if letters[i + 1] ~= 'f' then fan, more = fan .. ' ' .. lane, true end
    end
  end
  if more then lane_lists[e.id], fresh.made = fan, true end
  return table.concat(letters)
end

local words = {}

-- schedule_each stores the messages of a call that is not usual.
local function schedule_each() -- rare
  local n = 0
  for i, e in ipairs(entries) do
    local old = known[i] or kept[e.id] -- a second entry of an id in one batch is compared with the first
    if not old then
      words[n + 1] = accept(e)
      words[n + 2] = digits(e.due)
      n = n + 2
    elseif sub(old, 1, DIGEST) ~= sub(e.record, 1, DIGEST) then
      unstage(e)
      words[n + 1], words[n + 2] = '3' .. letter('s', e), '0'
      n = n + 2
    else
      words[n + 1] = again(e, old)
      words[n + 2], words[n + 3] = digits(e.due), #old > DIGEST and num(created_at(old)) or '0'
      n = n + 3
    end
  end
end

-- schedule_usual stores the messages of a usual call. For each message it does what accept and make do.
local function schedule_usual()
  local first, last_when, due, soon, digits_of_due, last_place, word = 1, nil, nil, nil, nil, nil, nil
  local created, created_digits
  for r, name in ipairs(names) do
    local l, prefix, shelf = lanes[name], name .. ':', nil
    shelf = shelf_of(l, records[first])
    if not l.text and not l.leads then l.leads = origin_and_tenant(records[first]) end
    for i = first, run_ends[r] do
      local id, record, when = ids[i], records[i], ARGV[first_message + 3 * i - 1]
      if when ~= last_when then
        last_when, due, last_place = when, ceil_now + tonumber(sub(when, 2)), nil
        soon, digits_of_due = due <= now or when == '+0', format('%d', due)
        if not soon and (first_due == 0 or due < first_due) then first_due = due end
      end
      if not created or find(record, created, 17, true) ~= 17 then
        created, created_digits = sub(record, 17, 22), num(created_at(record))
      end
      append_pair(shelf, created_digits, id)
      fresh[2 * i - 1], fresh[2 * i] = id, record
      if told then fresh.bytes = fresh.bytes + #record end
      local place = 'd'
      if soon and may_lease(l) then
        place = 'l'
        lease_it(l, prefix .. id)
      else
        l.waiting = l.waiting + 1
        if soon then
          place = 'r'
          make_ready(l, id, due)
        else
          append_pair(dues, digits_of_due, prefix .. id)
        end
      end
      if place ~= last_place then last_place, word = place, '1' .. place .. ' ' .. digits_of_due end
      words[i] = word
    end
    first = run_ends[r] + 1
  end
  fresh.made = true
end
if usual then schedule_usual() else schedule_each() end
local answer = { 0, 0, 0, {}, table.concat(words, ' ') }
count('in_flight', nleases)
count('ready', nready)
count('scheduled', #dues / 2 + nbehind)

in_chunks('HSET', MESSAGES, fresh)
if told and fresh.made then log_accepted(fresh, answer[5], fresh.bytes) end
if #fresh.subjects > 0 then note_subjects(fresh.subjects) end
for id, fan in pairs(lane_lists) do sure('HSET', FAN, id, fan) end
write_leases(leases)
for shelf, list in pairs(shelves) do
  in_chunks('ZADD', SHELF .. shelf, list)
  if list.owner then add_tenant_shelf(shelf, list.owner) end
end
in_chunks('ZADD', DUE, dues)
sums.due, sums.kept = first_due, true
for lane, list in pairs(pushes) do
  in_chunks('RPUSH', READY .. lane, list)
  if lanes[lane].ready == #list then lanes[lane].place = true end
end
if #sums.watched > 0 then set_expiry() end
for field, gone in pairs(staged) do
  if gone then sure('HDEL', BODIES, field) end
  sure('ZREM', STAGED, field)
end
for _, l in ipairs(loaded) do
  if sub(l.name, 1, 3) == 'ep_' then
    answer[4][#answer[4] + 1] = l.name
    answer[4][#answer[4] + 1] = l.limits.v
  end
  if l.slow == UNKNOWN and l.flying > l.had then append_pair(answer[4], l.name, '?') end
end
write_ends()
answer[1], answer[2], answer[3] = finish()
return answer
