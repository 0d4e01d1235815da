-- settle: record the outcomes of attempts. Without the lease only a success counts, and only for what is not finished.
--
-- ARGV[3..] for each: delivery, verdict (d delivered, r retry, x dead, b back), status (0 no answer), took ms,
--           ms (r: wait; b: since when it was ready), number of the attempt (0: none was made), reason (x; else -),
--           meta, excerpt (both empty: nothing for the history)
-- returns now, due, weight, then for each: 1 done as asked, 2 late and nothing changed, 3 late but counted, 4 had ended
-- otherwise meanwhile
local KEPT, WITH_EXCERPT = 32, 3 -- attempts in a history; the newest of them that keep the answer's head

local outcomes, deliveries, names = {}, {}, {}
for i = 3, #ARGV, 9 do
  local lane, id = parts(ARGV[i])
  outcomes[#outcomes + 1] = {
    delivery = ARGV[i], lane = lane, id = id, verdict = ARGV[i + 1], status = tonumber(ARGV[i + 2]),
    took = tonumber(ARGV[i + 3]), ms = tonumber(ARGV[i + 4]), number = tonumber(ARGV[i + 5]),
    reason = ARGV[i + 6], meta = ARGV[i + 7], excerpt = ARGV[i + 8],
  }
  deliveries[#deliveries + 1] = ARGV[i]
  names[#names + 1] = lane
end
if #outcomes == 0 then return { finish() } end
load(names)
local scores = call('ZMSCORE', LEASES .. by, unpack(deliveries))
local marks = call('HMGET', MARKS, unpack(deliveries))
local texts = call('HMGET', PROGRESS, unpack(deliveries))
-- An outcome that is repeated, since its answer was lost, may find that the same instance claimed the delivery again:
-- then it is of an attempt that was counted already, and the lease is not its own. After a late success of another's
-- attempt the numbers say nothing, but that delivery has ended anyhow.
local held, leased = {}, {}
for i, score in ipairs(scores) do
  local o = outcomes[i]
  local older = o.number > 0 and o.number <= (progress(texts[i])) and marks[i] ~= 'd'
  if score and not older then
    held[o.delivery] = true
    leased[#leased + 1] = o.delivery
  end
end

call('DEL', tag)
each('ZREM', LEASES .. by, leased)

local done, cancelled, dead, dues, fronts, unmarked, marked, moved, gone = {}, {}, {}, {}, {}, {}, {}, {}, {}
local function put(list, score, delivery)
  list[#list + 1] = score
  list[#list + 1] = delivery
end

local function class(took)
  return took <= 50 and 0 or took <= 100 and 1 or took <= 250 and 2 or took <= 1000 and 4 or WORST
end

local function remember(o, due)
  if o.meta == '' then return end
  local key = HISTORY .. o.delivery
  local n = call('LPUSH', key, num(due) .. ' ' .. #o.meta .. ' ' .. o.meta .. o.excerpt)
  if n > WITH_EXCERPT then
    local old = call('LINDEX', key, WITH_EXCERPT)
    local head, length = string.match(old, '^(%d+ (%d+) )')
    if #old > #head + length then call('LSET', key, WITH_EXCERPT, string.sub(old, 1, #head + length)) end
  end
  if n > KEPT then call('LTRIM', key, 0, KEPT - 1) end
end

-- learned changes what the lane's answers say of it. An attempt that was not made says nothing.
local function learned(o, l)
  if o.number == 0 or o.verdict == 'b' then return end
  if o.status == 0 then
    l.window, l.slow = math.max(1, floor(l.window / 2)), WORST
    return
  end
  l.slow = class(o.took)
  if o.verdict == 'd' then l.window = math.min(l.window + 1, most) end
end

-- counted writes how far a delivery has come. A first attempt answered with 200 needs no entry.
local function counted(o, text, reason)
  if o.number == 0 and reason == '-' then return end
  if o.verdict == 'd' and o.number == 1 and o.status == 200 and not text then return end
  local attempts, base = progress(text)
  moved[#moved + 1] = o.delivery
  moved[#moved + 1] = progressed(math.max(attempts, o.number), base, 0, o.status, 0, reason)
end

local function settled(o, text, mark)
  local l = lanes[o.lane]
  l.flying = l.flying - 1
  count('in_flight', -1)
  learned(o, l)
  if mark then unmarked[#unmarked + 1] = o.delivery end
  if mark == 'd' or o.verdict == 'd' then
    put(done, now, o.delivery)
    count('delivered', 1)
    counted(o, text, '-')
    remember(o, 0)
    return o.verdict == 'd' and 1 or 4
  end
  if mark == 'c' then
    put(cancelled, now, o.delivery)
    count('cancelled', 1)
    if o.verdict ~= 'b' then
      counted(o, text, '-')
      remember(o, 0)
    end
    return 4
  end
  if o.verdict == 'b' then
    fronts[#fronts + 1] = o
    l.waiting = l.waiting + 1
    count('ready', 1)
    return 1
  end
  counted(o, text, o.verdict == 'x' and o.reason or '-')
  if o.verdict == 'r' then
    put(dues, num(from + o.ms), o.delivery)
    l.waiting = l.waiting + 1
    count('retrying', 1)
    remember(o, from + o.ms)
    return 1
  end
  put(dead, now, o.delivery)
  count('dead', 1)
  bury(o.lane, o.reason, 1)
  remember(o, 0)
  return 1
end

local function late(o, text)
  if o.verdict ~= 'd' or not exists(o.lane, o.id) then return 2 end
  if call('ZSCORE', DONE, o.delivery) or call('ZSCORE', CANCELLED, o.delivery) or call('ZSCORE', DEAD, o.delivery) then
    return 2
  end
  counted(o, text, '-')
  if call('ZSCORE', DUE, o.delivery) then
    gone[#gone + 1] = o.delivery
    lanes[o.lane].waiting = lanes[o.lane].waiting - 1
    count(waits(text), -1)
    put(done, now, o.delivery)
    count('delivered', 1)
  else
    -- Ready or leased elsewhere: the next script that meets it ends it.
    marked[#marked + 1] = o.delivery
    marked[#marked + 1] = 'd'
  end
  remember(o, 0)
  return 3
end

local codes = {}
for i, o in ipairs(outcomes) do
  if held[o.delivery] then
    held[o.delivery] = nil
    codes[i] = settled(o, texts[i], marks[i])
  else
    codes[i] = late(o, texts[i])
  end
  if codes[i] ~= 2 and o.verdict ~= 'b' then note(o.delivery, o.verdict, o.status, o.took, o.number, o.reason) end
end

each('ZREM', DUE, gone)
each('HDEL', MARKS, unmarked)
each('ZADD', DONE, done)
each('ZADD', CANCELLED, cancelled)
each('ZADD', DEAD, dead)
each('ZADD', DUE, dues)
each('HSET', MARKS, marked)
each('HSET', PROGRESS, moved)
-- The first one handed back goes to the head last, so that the order given is the order again.
for i = #fronts, 1, -1 do
  local o, l = fronts[i], lanes[fronts[i].lane]
  if call('LPUSH', READY .. o.lane, num(o.ms) .. ':' .. o.id) == 1 then l.place = true end
end
local t, d, w = finish()
return { t, d, w, unpack(codes) }
