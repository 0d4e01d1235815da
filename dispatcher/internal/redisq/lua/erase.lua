-- erase: forget deliveries that have ended, however that was. The ids of their messages stay known, so that a caller's
-- repeat is no new message.
-- needs: common(first_write, kept_record, split, sure), progress(parse_progress), sums(count, count_dead, log_line),
--   finish(finish), cut(forget_deliveries, limit_by_fans)
--
-- ARGV[3..] deliveries
-- returns now, due, weight, an empty text, then for each: 1 forgotten now, 0 left for another call, which has less to
--   read, -1 not kept, -2 it has not ended
local deliveries, codes, wholes = {}, {}, {}
for i = 3, #ARGV do
  local lane, id = split(ARGV[i])
  deliveries[i - 2] = ARGV[i]
  codes[i - 2] = kept_record(lane, id, wholes) and -2 or -1
end
first_write()
local at = {}
for i, delivery in ipairs(deliveries) do at[delivery] = i end
for _, end_ in ipairs({ { DONE, 'delivered' }, { CANCELLED, 'cancelled' }, { DEAD, 'dead' } }) do
  local key, status, found = end_[1], end_[2], {}
  for i, place in ipairs(#deliveries > 0 and sure('ZMSCORE', key, unpack(deliveries)) or NONE) do
    if place then
      found[#found + 1] = deliveries[i]
      codes[i] = 0
    end
  end
  found = limit_by_fans(found)
  for i, text in ipairs(#found > 0 and sure('HMGET', PROGRESS, unpack(found)) or NONE) do
    local attempts, _, _, _, _, reason = parse_progress(text)
    if status == 'dead' then count_dead((split(found[i])), reason, -1) end
    log_line(found[i], 'forgotten', 0, 0, attempts, '-')
    codes[at[found[i]]] = 1
  end
  forget_deliveries(key, found, true)
  count(status, -#found)
end
local t, d, w = finish()
return { t, d, w, '', unpack(codes) }
