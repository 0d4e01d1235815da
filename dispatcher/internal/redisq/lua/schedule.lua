-- schedule: put messages in, each to its lanes; lease at once what is due, where nothing waits before it.
--
-- ARGV[3] free   free permits of the instance
-- ARGV[4] lease  most deliveries to lease to it directly
-- ARGV[5..]      for each message: id, record, when ("+ms" after now, "@ms" at a time), and where the record names no
--                lane the number of lanes and the lanes
-- returns now, due, weight, then for each message: result (1 new, 2 the same again, 3 other content), created (6 bytes,
-- empty if 3), due ms of what was made, and a letter for each lane: d due, r ready, l leased, s there already
local free, lease = tonumber(ARGV[3]), tonumber(ARGV[4])
local entries, ids, names = {}, {}, {}
local at = 5
while ARGV[at] do
  local when = ARGV[at + 2]
  local e = {
    id = ARGV[at], record = ARGV[at + 1], absolute = sub(when, 1, 1) == '@', ms = tonumber(sub(when, 2)),
    lanes = { only(ARGV[at + 1]) }, result = 0, make = false,
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
if #entries == 0 then return { finish() } end
load(names)
if lease > 0 and call('ZSCORE', FENCED, by) then lease = 0 end

-- What each message is: an id given twice in one batch meets the first one.
local known, kept, fans = call('HMGET', MESSAGES, unpack(ids)), {}, {}
local fresh = {}
for i, e in ipairs(entries) do
  local old = known[i] or kept[e.id]
  if not old then
    e.result, e.make = 1, e.lanes
    kept[e.id] = e.record
    fresh[#fresh + 1] = e.id
    fresh[#fresh + 1] = e.record
    if #e.lanes > 1 then fans[e.id] = table.concat(e.lanes, ' ') end
  elseif string.sub(old, 1, DIGEST) ~= string.sub(e.record, 1, DIGEST) then
    e.result = 3
  else
    e.result, e.make, e.record = 2, {}, old
    if #old > DIGEST then
      local fan = fans[e.id] or call('HGET', FAN, e.id) or only(old)
      local named = {}
      for lane in string.gmatch(fan, '%S+') do named[string.gsub(lane, '^%-', '')] = true end
      for _, lane in ipairs(e.lanes) do
        if not named[lane] then
          named[lane] = true
          e.make[#e.make + 1] = lane
          fan = fan .. ' ' .. lane
        end
      end
      if #e.make > 0 then
        fans[e.id] = fan
        e.absolute, e.ms = true, deliver(old) -- a lane that a repeat adds is due when the first ones were
      end
    end
  end
end

each('HSET', MESSAGES, fresh)
for id, fan in pairs(fans) do call('HSET', FAN, id, fan) end

local leases, dues, pushes, answer = {}, {}, {}, { 0, 0, 0 }
local nleased, nready = 0, 0

-- make puts one delivery where it belongs and answers the place's letter.
local function make(id, lane, due, soon, alive)
  local l = lanes[lane]
  if not soon then
    dues[#dues + 1] = num(due)
    dues[#dues + 1] = lane .. ':' .. id
    l.waiting = l.waiting + 1
    return 'd'
  end
  if alive and nleased < lease and queued(l) == 0 and l.flying < l.window and light(l, free - nleased) then
    nleased = nleased + 1
    leases[#leases + 1] = now
    leases[#leases + 1] = lane .. ':' .. id
    l.flying = l.flying + 1
    return 'l'
  end
  nready = nready + 1
  local list = pushes[lane]
  if not list then
    list = {}
    pushes[lane] = list
  end
  list[#list + 1] = num(math.min(due, now)) .. ':' .. id
  l.ready = queued(l) + 1
  l.waiting = l.waiting + 1
  return 'r'
end

for i, e in ipairs(entries) do
  local due = e.absolute and e.ms or from + e.ms
  local soon = due <= now or (not e.absolute and e.ms == 0)
  local letters = ''
  if e.make and #e.make > 0 then
    local expiry = expires(e.record)
    local alive = expiry == 0 or expiry > now -- a claim ends what has expired
    local k = 1
    for _, lane in ipairs(e.lanes) do
      local letter = 's'
      if e.make[k] == lane then
        k = k + 1
        letter = make(e.id, lane, due, soon, alive)
      end
      letters = letters .. letter
    end
  else
    letters = string.rep('s', #e.lanes)
  end
  local at = 4 * i
  answer[at], answer[at + 2], answer[at + 3] = e.result, due, letters
  answer[at + 1] = e.result ~= 3 and #e.record > DIGEST and created(e.record) or ''
end
count('in_flight', nleased)
count('ready', nready)
count('scheduled', #dues / 2)

each('ZADD', LEASES .. by, leases)
each('ZADD', DUE, dues)
for lane, list in pairs(pushes) do
  each('RPUSH', READY .. lane, list)
  if lanes[lane].ready == #list then lanes[lane].place = true end
end
answer[1], answer[2], answer[3] = finish()
return answer
