-- look: read messages with all that is known of their deliveries.
--
-- ARGV[..] after those of read: message ids
-- returns now, due, weight, then for each: the record (empty: none, or only its digest), a list of deliveries, each
-- lane, status, ms, what it waits for (empty: nothing), progress, history (a list, newest first)
local answer = {}
for i = rest, #ARGV do
  local id = ARGV[i]
  local record, list = call('HGET', MESSAGES, id), {}
  if record and #record > DIGEST then
    for _, lane in ipairs(lanes_of(id, record)) do
      if string.sub(lane, 1, 1) ~= '-' then
        local delivery = lane .. ':' .. id
        load({ lane })
        local status, at, why = stands(delivery, lanes[lane], id, record)
        list[#list + 1] = {
          lane, status, num(at), why,
          call('HGET', PROGRESS, delivery) or '', call('LRANGE', HISTORY .. delivery, 0, -1),
        }
      end
    end
  end
  answer[#answer + 1] = record and #record > DIGEST and record or ''
  answer[#answer + 1] = list
end
return { micros, before_due, weighs(before_weight), unpack(answer) }
