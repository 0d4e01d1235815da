-- schedule: put messages in, each to its lanes; lease at once what is due, where nothing waits before it.
--
-- ARGV[3] free   free permits of the instance
-- ARGV[4] lease  most deliveries to lease to it directly
-- ARGV[5..]      for each message: id, record, when ("+ms" after now, "@ms" at a time; * before it where a lane that is full
--                must not refuse the message), and where the record names no lane the number of lanes and the lanes
-- returns now, due, weight, versions (lane and version of its limits for each lane of an endpoint), then for each message:
-- result (1 new, 2 the same again, 3 other content, 4 a lane is full), created (6 bytes, empty if 3 or 4), due ms of what
-- was made, and a letter for each lane: d due, r ready, l leased, b behind another, x dead: disabled, o dead: the lane is
-- full, c cancelled: deleted, s there already, f not made: the lane is full
local free, lease = tonumber(ARGV[3]), tonumber(ARGV[4])
local entries, ids, names = {}, {}, {}
local at = 5
while ARGV[at] do
  local when = ARGV[at + 2]
  local fan = sub(when, 1, 1) == '*'
  if fan then when = sub(when, 2) end
  local e = {
    id = ARGV[at], record = ARGV[at + 1], absolute = sub(when, 1, 1) == '@', ms = tonumber(sub(when, 2)), fan = fan,
    lanes = { only(ARGV[at + 1]) }, result = 0, due = 0, soon = false,
  }
  at = at + 3
  if e.lanes[1] == '' then
    for i = 1, tonumber(ARGV[at]) do
      e.lanes[i] = ARGV[at + i]
      names[#names + 1] = e.lanes[i]
    end
    at = at + 1 + #e.lanes
  else
    names[#names + 1] = e.lanes[1]
  end
  entries[#entries + 1] = e
  ids[#ids + 1] = e.id
end
if #entries == 0 then
  local t, d, w = finish()
  return { t, d, w, {} }
end
load(names)
if lease > 0 and (all_held or call('ZSCORE', FENCED, by)) then lease = 0 end

local known, kept, fans, fresh = call('HMGET', MESSAGES, unpack(ids)), {}, {}, {}
local leases, dues, pushes, nready, nbehind = {}, {}, {}, 0, 0

-- may_lease reports whether a delivery may be attempted by the caller at once, before anybody else comes. A claim ends
-- what has expired.
local function may_lease(e, l)
  local n, limits = #leases / 2, l.limits
  if n >= lease or not e.soon or queued(l) > 0 or limits.held ~= '-' or l.state.till > now then return false end
  if l.flying >= room(l) or not light(l, free - n) or (limits.interval > 0 and tokens(l) == 0) then return false end
  local expiry = expires(e.record)
  return expiry == 0 or expiry > now
end
local function full(l) return most_waiting > 0 and l.waiting >= most_waiting end

-- refused reports whether a new message has to stay out since a lane of it is full. What is leased or ends at once
-- takes no room.
local function refused(e)
  if e.fan then return false end
  for _, name in ipairs(e.lanes) do
    local l = lanes[name]
    if full(l) and not ends(l) then
      local key = line(l, e.record)
      if (key and last_of(l, key)) or not may_lease(e, l) then return true end
    end
  end
  return false
end

local function overflow(l, delivery)
  put(ended.dead, now, delivery)
  put(entries_of_progress, delivery, progressed(0, 0, 0, 0, 0, 'overflow'))
  count('dead', 1)
  bury(l.name, 'overflow', 1)
  note(delivery, 'dead', 0, 0, 0, 'overflow')
end

-- make puts one delivery where it belongs and answers the place's letter.
local function make(e, l)
  local delivery = l.name .. ':' .. e.id
  if ends(l) then
    doom(l, delivery)
    return l.limits.held == 'x' and 'c' or 'x'
  end
  local key = line(l, e.record)
  local behind = key and last_of(l, key)
  local now_leased = not behind and may_lease(e, l)
  if not now_leased and full(l) then
    if not e.fan then return 'f' end
    overflow(l, delivery)
    return 'o'
  end
  if key then join(l, key, e.id) end
  if now_leased then
    leases[#leases + 1] = now
    leases[#leases + 1] = delivery
    l.flying = l.flying + 1
    if l.limits.interval > 0 then take(l, 1) end
    return 'l'
  end
  l.waiting = l.waiting + 1
  if behind then
    nbehind = nbehind + 1
    return 'b'
  end
  if not e.soon then
    dues[#dues + 1] = num(e.due)
    dues[#dues + 1] = delivery
    return 'd'
  end
  nready = nready + 1
  local list = pushes[l.name]
  if not list then
    list = {}
    pushes[l.name] = list
  end
  list[#list + 1] = num(math.min(e.due, now)) .. ':' .. e.id
  l.ready = queued(l) + 1
  return 'r'
end

local function time(e)
  e.due = e.absolute and e.ms or from + e.ms
  e.soon = e.due <= now or (not e.absolute and e.ms == 0)
end

-- accept puts a new message in, unless a lane of it is full, and answers the letters.
local function accept(e)
  time(e)
  if most_waiting > 0 and refused(e) then
    e.result = 4
    return string.rep('f', #e.lanes)
  end
  e.result = 1
  kept[e.id] = e.record
  fresh[#fresh + 1] = e.id
  fresh[#fresh + 1] = e.record
  if #e.lanes == 1 then return make(e, lanes[e.lanes[1]]) end
  fans[e.id] = table.concat(e.lanes, ' ')
  local letters = {}
  for i, lane in ipairs(e.lanes) do letters[i] = make(e, lanes[lane]) end
  return table.concat(letters)
end

-- again adds to a message that is there the lanes that it never named, and answers the letters.
local function again(e, old)
  e.result, e.record = 2, old
  if #old <= DIGEST then return string.rep('s', #e.lanes) end
  e.absolute, e.ms = true, deliver(old) -- a lane that a repeat adds is due when the first ones were
  time(e)
  local fan = fans[e.id] or call('HGET', FAN, e.id) or only(old)
  local named, letters, more = {}, {}, false
  for lane in string.gmatch(fan, '%S+') do named[string.gsub(lane, '^%-', '')] = true end
  for i, lane in ipairs(e.lanes) do
    letters[i] = 's'
    if not named[lane] and not named['*'] then -- *: others were here and are gone, which a repartition left unnamed
      named[lane] = true
      letters[i] = make(e, lanes[lane])
      if letters[i] ~= 'f' then fan, more = fan .. ' ' .. lane, true end
    end
  end
  if more then fans[e.id] = fan end
  return table.concat(letters)
end

local answer, n = { 0, 0, 0, {} }, 4
for i, e in ipairs(entries) do
  local old = known[i] or kept[e.id] -- an id given twice in one batch meets the first one
  local letters
  if not old then
    letters = accept(e)
  elseif sub(old, 1, DIGEST) ~= sub(e.record, 1, DIGEST) then
    e.result = 3
    letters = string.rep('s', #e.lanes)
  else
    letters = again(e, old)
  end
  answer[n + 1], answer[n + 3], answer[n + 4] = e.result, e.due, letters
  answer[n + 2] = e.result < 3 and #e.record > DIGEST and created(e.record) or ''
  n = n + 4
end
count('in_flight', #leases / 2)
count('ready', nready)
count('scheduled', #dues / 2 + nbehind)

each('HSET', MESSAGES, fresh)
for id, fan in pairs(fans) do call('HSET', FAN, id, fan) end
each('ZADD', LEASES .. by, leases)
each('ZADD', DUE, dues)
for lane, list in pairs(pushes) do
  each('RPUSH', READY .. lane, list)
  if lanes[lane].ready == #list then lanes[lane].place = true end
end
for _, l in ipairs(met) do
  if sub(l.name, 1, 3) == 'ep_' then
    answer[4][#answer[4] + 1] = l.name
    answer[4][#answer[4] + 1] = l.limits.v
  end
end
flush()
answer[1], answer[2], answer[3] = finish()
return answer
