-- archive_state: how far the log of a partition is archived. If that was not known, it begins now: later entries are not
-- trimmed before they are archived, and earlier ones are in a gap.
-- needs: common(call, first_write), position(is_later, ms_and_seq, next_id)
--
-- ARGV[3] begin  1, or 0: nothing begins. Nothing does either if the partition has no epoch, because its data were lost
-- returns 1 if it began, epoch, p, bytes that wait, lines that were given up, gap, id of the first entry behind p, of the last
--   one; empty if there is none
local kept = call('HMGET', ARCHIVE, 'p', 'b', 'dropped', 'gap', 'cut')
local epoch = call('HGET', LIMITS, '~epoch') or ''
local p, waits, dropped, gap, cut = kept[1] or '', kept[2] or '', kept[3] or '', kept[4] or '', kept[5] or ''
local newest = call('XREVRANGE', ATTEMPTS, '+', '-', 'COUNT', 1)[1]
local last, began = newest and newest[1] or '', 0
if ARGV[3] == '1' and epoch ~= '' and not ms_and_seq(p) then
  began = 1
  first_write()
  p = last == '' and '0-0' or last
  if is_later(cut, p) then p = cut end
  waits, gap = '', next_id(p)
  call('HDEL', ARCHIVE, 'b')
  call('HSET', ARCHIVE, 'p', p, 'gap', gap)
end
local first = ms_and_seq(p) and call('XRANGE', ATTEMPTS, '(' .. p, '+', 'COUNT', 1)[1]
return { began, epoch, p, waits, dropped, gap, first and first[1] or '', last }
