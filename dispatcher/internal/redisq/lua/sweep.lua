-- sweep: end deliveries that wait in a lane that takes no more: its endpoint is disabled or deleted, or it is cut, which
-- ends deliveries that were accepted before. The next ones in line follow. It also ends marked ones that cancel could not find in a
-- long list.
-- needs: common(first_write, now, read_fields, split, sure), lane_state(lanes, load_lanes, ready_length),
--   progress(parse_progress), sums(count), finish(finish), ends(drop_delivery, end_marked, ended, ends_with_lane,
--   removed_marks, write_ends), order(end_due_with_lane, end_ready, leave_line)
--
-- ARGV[3]   lane
-- ARGV[4]   t: those that are named, which wait for a time; r: the head of the ready list; u: none, and a cut is taken away
--           unless a delivery in flight may be older; m: marked ones of the ready list
-- ARGV[5..] deliveries of it (t); of m: how many elements at the tail were read before
-- returns now, due, weight, number that ended; of m: ARGV[5] of the next call, -1 at the end
local MOST = 64 -- deliveries of a ready list that one call ends
local READ = 1024 -- elements that one call checks for marks
local LONGEST = 120000 -- ms; no attempt takes longer, with its quick repeats
local name, what, ids = ARGV[3], ARGV[4], {}
for i = 5, what == 't' and #ARGV or 4 do
  local lane, id = split(ARGV[i])
  if lane == name then ids[#ids + 1] = id end
end
first_write()
load_lanes({ name })
local l = lanes[name]
for _, id in ipairs(ids) do
  local delivery = name .. ':' .. id
  if ends_with_lane(l, id) and sure('ZREM', DUE, delivery) == 1 then end_due_with_lane(l, delivery, id, sure('HGET', PROGRESS, delivery)) end
end
if what == 'r' and l.limits.cut then
  end_ready(l, MOST)
  l.place = true
end
if what == 'u' and l.limits.cut and (l.flying <= 0 or now - l.limits.cut >= LONGEST) then
  sure('HDEL', LIMITS, name)
  sure('HDEL', HELD, name)
end

-- end_marks ends marked deliveries among some elements. Redis removes from the middle of a list by passing all elements
-- from one end, so those that end are overwritten and leave together.
local function end_marks(skip)
  local key, length, names = READY .. name, ready_length(l), {}
  local page = sure('LRANGE', key, -skip - READ, -skip - 1)
  for i, element in ipairs(page) do names[i] = name .. ':' .. select(2, split(element)) end
  local marks, first, n = #page > 0 and read_fields(MARKS, names) or NONE, length - skip - #page, 0
  for i, delivery in ipairs(names) do
    if n == MOST then break end
    if marks[i] then
      local _, id = split(delivery)
      local record = sure('HGET', MESSAGES, id)
      sure('LSET', key, first + i - 1, '')
      n = n + 1
      l.waiting = l.waiting - 1
      count('ready', -1)
      if record and #record > DIGEST then
        count(end_marked(delivery, marks[i], (parse_progress(sure('HGET', PROGRESS, delivery)))), 1)
      else
        removed_marks[#removed_marks + 1] = delivery
        drop_delivery(delivery, id, record)
      end
      leave_line(l, id, record)
    end
  end
  if n > 0 then
    sure('LREM', key, skip < length / 2 and -n or n, '')
    l.ready = nil
    if ready_length(l) == 0 then l.emptied = true end
  end
  if n == MOST then return skip end
  return #page < READ and -1 or skip + READ - n
end
local more = what == 'm' and end_marks(tonumber(ARGV[5])) or nil
local n = (#ended.cancelled + #ended.dead + #ended.done) / 2
write_ends()
local t, d, w = finish()
return { t, d, w, n, more }
