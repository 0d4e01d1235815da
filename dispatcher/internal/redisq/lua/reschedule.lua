-- reschedule: let deliveries that wait be due at another time. A ready one is taken out of its lane's list, and waits again.
-- needs: common(expires_at, first_write, kept_record, num, split, sure), lane_state(lanes, load_lanes),
--   progress(parse_progress, progress_text, waiting_status), sums(count), finish(finish), order(set_ahead_of),
--   reach(close_lists, take_out)
--
-- ARGV[3] ms of that time, ARGV[4..] deliveries
-- returns now, due, weight, an empty text, then for each: 1 it waits until then, 0 an attempt is under way, or was asked for while it
--   waited, it has ended, or it is ready and deep in a long list, -1 not kept, -6 its message expires before, -7 others of its key go first
local at, deliveries, names = tonumber(ARGV[3]), {}, {}
for i = 4, #ARGV do
  deliveries[#deliveries + 1] = ARGV[i]
  names[#names + 1] = (split(ARGV[i]))
end
first_write()
load_lanes(names)
local wholes = {}

-- reschedule returns the code of one delivery.
local function reschedule(delivery, l, id)
  local record = kept_record(l.name, id, wholes)
  if not record then return -1 end
  local expiry = expires_at(record)
  if expiry > 0 and at >= expiry then return -6 end
  if sure('HEXISTS', MARKS, delivery) == 1 then return 0 end
  if sure('ZSCORE', DUE, delivery) then
    sure('ZADD', DUE, num(at), delivery)
    return 1
  end
  if sure('ZSCORE', DONE, delivery) or sure('ZSCORE', DEAD, delivery) or sure('ZSCORE', CANCELLED, delivery) then return 0 end
  if set_ahead_of(l, id, record) then return -7 end
  local text = sure('HGET', PROGRESS, delivery)
  local a, b, d, s, asked, r, more = parse_progress(text)
  if asked > 1 or not take_out(l, id) then return 0 end
  if asked > 0 then sure('HSET', PROGRESS, delivery, progress_text(a, b, d, s, 0, r, more)) end -- nobody asks for it now any more
  count('ready', -1)
  count(waiting_status(text), 1)
  sure('ZADD', DUE, num(at), delivery)
  return 1
end

local codes = {}
for i, delivery in ipairs(deliveries) do
  local lane, id = split(delivery)
  codes[i] = reschedule(delivery, lanes[lane], id)
end
close_lists()
local t, d, w = finish()
return { t, d, w, '', unpack(codes) }
