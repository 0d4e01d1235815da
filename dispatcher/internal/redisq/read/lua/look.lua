-- look: read a message with all that is known of its deliveries, some lanes at a time.
-- needs: common(call, lanes_of, micros, sub), lane_state(lanes, load_lanes), finish(before_due, before_weight,
--   hint_weight), read(args_from, safely, status_of)
--
-- ARGV[..] after the arguments of read:
--   id     the message
--   first  place in :fan of the lane to begin with, 1 for the first; trim leaves each lane's place as it is
--   most   most deliveries to answer
--   bytes  the answer ends with the delivery that exceeds this size
-- returns now, due, weight, the record (empty: none, only its digest, or first is not 1), the place to go on with (0: there
--   is no more), a list of deliveries, each lane, status, ms, the reason why it waits (empty: none), progress, history (a list,
--   newest first)
local id, first, most_lanes, bytes = ARGV[args_from], tonumber(ARGV[args_from + 1]), tonumber(ARGV[args_from + 2]), tonumber(ARGV[args_from + 3])
local record = call('HGET', MESSAGES, id)
if not record or #record <= DIGEST then return { micros, before_due, hint_weight(before_weight), '', 0, {} } end

-- names are the lanes of the page. behind is the place after its last one.
local all, names, behind = lanes_of(id, record), {}, first
while behind <= #all and #names < most_lanes do
  if sub(all[behind], 1, 1) ~= '-' then names[#names + 1] = all[behind] end
  behind = behind + 1
end
load_lanes(names)

local list, size, at = {}, first == 1 and #record or 0, first
while at < behind and (#list == 0 or size < bytes) do
  local lane = all[at]
  if sub(lane, 1, 1) ~= '-' then
    local delivery = lane .. ':' .. id
    local status, ms, why = status_of(delivery, lanes[lane], id, record)
    local text, history = call('HGET', PROGRESS, delivery) or '', safely('LRANGE', HISTORY .. delivery, 0, -1) or {}
    list[#list + 1] = { lane, status, ms, why, text, history }
    size = size + #delivery + #text
    for _, entry in ipairs(history) do size = size + #entry end
  end
  at = at + 1
end
return { micros, before_due, hint_weight(before_weight), first == 1 and record or '', at <= #all and at or 0, list }
