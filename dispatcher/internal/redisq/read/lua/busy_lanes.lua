-- busy_lanes: read all lanes, a part at a time. It finds the lanes with the most waiting, the oldest delivery that is
-- ready and may be attempted, how many are held and why, and the number of lanes in each state. It goes through three
-- hashes: :in for waiting deliveries, :lane for breakers and times, :held for pauses. An idle lane costs hardly
-- anything.
-- needs: common(call, find, match, micros, now, num, sub), limits(pauses_all), lane_state(all_paused, lanes,
--   load_lanes), slots(lane_ends), finish(before_due, before_weight, hint_weight), server(server), read(args_from,
--   ready_wait_reason, safely, wait_reason)
--
-- ARGV[..] after the arguments of read: place to begin at (a letter of the hash, i, l or h, and the cursor of its scan; "i0" at
--   first), about how many to read, fewest waiting deliveries of a lane to return, most lanes to return, ms
--   after which a lane counts as failing (0: none does)
-- returns now, due, weight, next place (empty at the end), the process that it is valid for, ms since when the oldest is ready (0: nothing is), ms since when a lane with something waiting is held by a pause, or by its endpoint (0: none is), deliveries that
--   are held: paused, breaker, retry_after, rate, consumer, sealed, missing, egress; lanes that are open, limited, failing, paused, disabled; 1 if all are paused;
--   how many lanes of this part fail, and each of them with what waits there; then for each lane: lane, in flight, waiting
local hash, at, left = sub(ARGV[args_from], 1, 1), sub(ARGV[args_from], 2), tonumber(ARGV[args_from + 1])
local fewest, most_told = tonumber(ARGV[args_from + 2]), tonumber(ARGV[args_from + 3])
local failing_after = tonumber(ARGV[args_from + 4])
local oldest, held_since, told, failing = 0, 0, {}, {}
local held_back = { paused = 0, breaker = 0, retry_after = 0, rate = 0, consumer = 0, sealed = 0, missing = 0, egress = 0 }
local standing = { open = 0, limited = 0, failing = 0, paused = 0, disabled = 0 }

-- held_by is the reason why the ready deliveries of a lane may not be attempted, nil if they may be, or end. A lane
-- counts as held by its rate while the rate is in use, because it is mostly between two attempts. One that is taken from is
-- held by its takers, also if they have as many as they may.
local function held_by(l)
  if wait_reason(l, '') == 'paused' then return 'paused' end
  local why = match(ready_wait_reason(l), '^%S+')
  if why ~= 'consumer' and held_back[why] then return why end
  local interval, tat = l.limits.interval, l.state.tat
  if interval > 0 and tat > 0 and tat + interval + IDLE > micros then return 'rate' end
  if l.limits.pull then return 'consumer' end
  return nil
end

-- note_held notes since when a lane is held: a pause has its begin, and the others are held at least since their oldest
-- delivery is due.
local function note_held(l, why)
  local since
  if why == 'paused' then
    since = match(call('HGET', HELD, all_paused and '*' or l.name) or '', '^p (%d+)')
  elseif why == 'sealed' or why == 'missing' then
    since = match(safely('LINDEX', READY .. l.name, 0) or '', '^(%d+):')
  end
  since = since and tonumber(since)
  if since and since > 0 and since < SANE and (held_since == 0 or since < held_since) then held_since = since end
end

-- ready_of adds the ready deliveries of a lane: to those held, or as a candidate for the oldest.
local function ready_of(l)
  if lane_ends(l) then return end
  local why = held_by(l)
  if l.limits.held == '?' then standing.limited = standing.limited + 1 end
  if why then
    note_held(l, why)
    held_back[why] = held_back[why] + (safely('LLEN', READY .. l.name) or 0)
    return
  end
  local head = safely('LINDEX', READY .. l.name, 0)
  local due = head and match(head, '^(%d+):')
  due = due and tonumber(due)
  if due and due < SANE and (oldest == 0 or due < oldest) then oldest = math.max(due, 1) end
end

local look = {}

function look.i(page)
  local names = {}
  for i = 1, #page, 2 do
    local name, text = page[i], page[i + 1]
    local flying, waiting = match(text, '^(%d+) (%d+)$')
    if flying and #text < 20 and text ~= '0 0' then
      flying, waiting = tonumber(flying), tonumber(waiting)
      if waiting > 0 then names[#names + 1] = name end
      if waiting >= fewest then told[#told + 1] = { name, flying, waiting } end
    end
  end
  load_lanes(names)
  for _, name in ipairs(names) do ready_of(lanes[name]) end
end

-- Most lanes wait for no time, and never did.
function look.l(page)
  local names = {}
  for i = 1, #page, 2 do
    if not find(page[i + 1], '^%d+ %d+ 0 0 0 %d+ %d+ 0 ') then names[#names + 1] = page[i] end
  end
  load_lanes(names)
  for _, name in ipairs(names) do
    local l = lanes[name]
    if l.limits.held == '-' then
      local since = l.state.failing
      if since > 0 or l.state.opened > 0 then
        failing[#failing + 1] = name
        failing[#failing + 1] = l.waiting
      end
      if since > 0 and failing_after > 0 and now - since >= failing_after then
        standing.failing = standing.failing + 1
      elseif l.state.opened > 0 then
        standing.open = standing.open + 1
      elseif l.state.till > now or (l.limits.interval > 0 and l.state.tat > micros) then
        standing.limited = standing.limited + 1
      end
    end
  end
end

function look.h(page)
  for i = 1, #page, 2 do
    local letter = sub(page[i + 1], 1, 1)
    local why = letter == 'p' and 'paused' or 'disabled'
    if page[i] ~= '*' and letter ~= 'g' then standing[why] = standing[why] + 1 end
  end
end

-- Deliveries whose headers no key opens wait alone. They are counted once, with the first page.
if ARGV[args_from] == 'i0' then
  held_back.sealed = safely('ZCARD', UNOPENED) or 0
  local since = tonumber((safely('ZRANGE', UNOPENED, '0', '0', 'WITHSCORES') or NONE)[2])
  if since and since > 0 and since < SANE then held_since = since end
end

local hashes, behind = { i = IN, l = LANE, h = HELD }, { i = 'l', l = 'h' }
while hash and left > 0 do
  local scan = call('HSCAN', hashes[hash], at, 'COUNT', left)
  look[hash](scan[2])
  left, at = left - math.max(#scan[2] / 2, 1), scan[1]
  if at == '0' then hash = behind[hash] end
end

table.sort(told, function(a, b)
  if a[3] ~= b[3] then return a[3] > b[3] end
  if a[2] ~= b[2] then return a[2] > b[2] end
  return a[1] < b[1]
end)
if all_paused == nil then all_paused = pauses_all(call('HGET', LIMITS, '*')) end
local answer = {
  micros, before_due, hint_weight(before_weight), hash and hash .. at or '', server(), num(oldest), num(held_since),
  held_back.paused, held_back.breaker, held_back.retry_after, held_back.rate, held_back.consumer, held_back.sealed,
  held_back.missing, held_back.egress,
  standing.open, standing.limited, standing.failing, standing.paused, standing.disabled, all_paused and 1 or 0,
  #failing / 2,
}
for _, value in ipairs(failing) do answer[#answer + 1] = value end
for i = 1, math.min(#told, most_told) do
  for _, value in ipairs(told[i]) do answer[#answer + 1] = value end
end
return answer
