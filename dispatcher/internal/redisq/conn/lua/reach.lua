-- reach: how ready deliveries are taken out of the middle of the list of their lane, which Redis can't do at once. It is put
-- behind order, before the scripts that do so. It takes no arguments of its own: ARGV[3..] is the script's.
-- needs: common(find, floor, match, sub, sure), lane_state(ready_length)
--
-- A list is read from both ends, in parts, until the delivery is found. If the time is known when the delivery became
-- ready, the search begins there, because a list is mostly in that order. The element is overwritten, and all overwritten
-- elements are removed together, because one removal walks past all elements before it.
local SEARCHED = 2048 -- elements of lists that one call reads: a ms or two
local PART = 128      -- elements that are read at once, at first, at both ends of a list, and where one is looked for

local reaches, elements_read = {}, 0

-- reach_of returns the cache of a list. at: the positions of the elements that were read, by id. length: of the list at that
-- time. head, tail: number of elements that were read at each end. from_head, from_tail: number of elements that were taken
-- out of each half. dues: the times of these, by position. sought: the position up to which seek has read, by the first one.
local function reach_of(l)
  local r = reaches[l]
  if not r then
    r = { at = {}, dues = {}, sought = {}, length = ready_length(l), head = 0, tail = 0, from_head = 0, from_tail = 0 }
    reaches[l] = r
  end
  return r
end

-- read_span reads elements of a list, counted from its end if they are nearer to that. It returns the last one.
local function read_span(l, r, first, n, from_tail)
  if n <= 0 then return end
  local shift = from_tail and ready_length(l) or 0
  local list = sure('LRANGE', READY .. l.name, first - shift, first + n - 1 - shift)
  for i, element in ipairs(list) do
    r.at[sub(element, (find(element, ':', 1, true) or #element) + 1)] = first + i - 1
  end
  elements_read = elements_read + n
  return list[#list]
end

-- read_on reads more of a list and reports whether there was more. New elements at its tail come first: the next
-- deliveries of ordering keys.
local function read_on(l, r)
  local more = ready_length(l) - r.length
  if more > 0 then
    read_span(l, r, r.length, more, true)
    r.length, r.tail = r.length + more, r.tail + more
    return true
  end
  local n = math.min(math.max(PART, r.head), SEARCHED - elements_read, r.length - r.head - r.tail)
  if n <= 0 then return false end
  local half = math.ceil(n / 2)
  read_span(l, r, r.head, half, false)
  read_span(l, r, r.length - r.tail - (n - half), n - half, true)
  r.head, r.tail = r.head + half, r.tail + n - half
  return true
end

-- search_spent reports whether this call may read no further part of a list.
local function search_spent() return elements_read + PART > SEARCHED end

-- seek reads the part of a list that became ready at about some time, until it finds a delivery. A list is in that order,
-- except for deliveries that came back to its head, or that a line released. seek gives up at one of these.
local function seek(l, r, id, near)
  local LATER = 250 -- ms; a delivery may be ready later than it was made by this, if the clock of its publisher is behind
  local low, high, over = r.head, r.length - r.tail, r.length - r.tail
  while low < high do
    local middle = floor((low + high) / 2)
    local due = r.dues[middle] or tonumber(match(sure('LINDEX', READY .. l.name, middle) or '', '^%d+'))
    if not due or due == 0 then return end
    if due < near then low = middle + 1 else high = middle end
  end
  local at = r.sought[low] or math.max(r.head, low - PART / 4)
  while at < over and not r.at[id] and not search_spent() do
    local last = read_span(l, r, at, math.min(PART, over - at), false)
    at = (tonumber(match(last or '', '^%d+')) or 0) > near + LATER and over or at + PART
  end
  r.sought[low] = at
end

-- take_out takes a delivery out of its lane's list and reports whether it was found. The caller counts it. Meanwhile the
-- list may only grow at its tail. The script has to call close_lists then.
-- near: ms when the delivery became ready, or a little before, if that is known. Then a long list is read only there.
local function take_out(l, id, near)
  local r = reach_of(l)
  if near and not r.at[id] and r.head == 0 then read_on(l, r) end
  if near and not r.at[id] and not search_spent() then seek(l, r, id, near) end
  while not r.at[id] do
    if near and r.length > SEARCHED or not read_on(l, r) then return false end
  end
  local at = r.at[id]
  r.at[id], r.dues[at] = nil, near
  if at < r.length / 2 then
    sure('LSET', READY .. l.name, at, '')
    r.from_head = r.from_head + 1
  else
    sure('LSET', READY .. l.name, at - ready_length(l), '')
    r.from_tail = r.from_tail + 1
  end
  return true
end

-- close_lists removes the elements that were taken out.
local function close_lists()
  for l, r in pairs(reaches) do
    if r.from_head > 0 then sure('LREM', READY .. l.name, r.from_head, '') end
    if r.from_tail > 0 then sure('LREM', READY .. l.name, -r.from_tail, '') end
    if r.from_head + r.from_tail > 0 then
      l.ready = nil
      if ready_length(l) == 0 then l.emptied = true end
    end
  end
  reaches = {}
end
