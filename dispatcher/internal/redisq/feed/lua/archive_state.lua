-- archive_state: how far the log of a partition is archived. It begins where that was not known: what happens from now on
-- is not trimmed before it is archived. If the log ends before what is archived, its tail was lost, or another master
-- numbers it by a clock that is behind. A mark then has later entries stand behind that place.
--
-- ARGV[3] epoch  a new name of this partition's data, taken where it has none; empty: nothing begins
-- returns 1 if it began, epoch, p, bytes that wait, lines that were given up, gap, cut, id of the first entry behind p, of the
--   last one; empty where there is none
local function field(name) return call('HGET', ARCHIVE, name) or '' end

local newest = call('XREVRANGE', ATTEMPTS, '+', '-', 'COUNT', 1)[1]
local last, p, began = newest and newest[1] or '', field('p'), 0
if ARGV[3] ~= '' and (field('epoch') == '' or not ms_and_seq(p)) then
  began = 1
  call('DEL', tag)
  call('HSETNX', ARCHIVE, 'epoch', ARGV[3])
  if not ms_and_seq(p) then
    p = last == '' and '0-0' or last
    if later(field('cut'), p) then p = field('cut') end
    call('HDEL', ARCHIVE, 'b', 'gap')
    call('HSET', ARCHIVE, 'p', p)
  end
end
if ms_and_seq(p) and later(p, last == '' and '0-0' or last) and p ~= field('cut') then
  call('DEL', tag)
  local id = redis.pcall('XADD', ATTEMPTS, next_id(p), 'z', '1')
  if type(id) == 'string' then last = id end -- else it was only trimmed: ids go on behind p
end
local first = ms_and_seq(p) and call('XRANGE', ATTEMPTS, '(' .. p, '+', 'COUNT', 1)[1]
return { began, field('epoch'), p, field('b'), field('dropped'), field('gap'), field('cut'), first and first[1] or '', last }
