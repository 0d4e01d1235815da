-- doctor: where a delivery is, and how its message names it, for the scripts that look for faults. It is put between
-- order and each of them. They trust nothing that they can read themselves: neither counts nor that a named key is
-- there.
-- needs: common(call, created_at, find, hex, lanes_of, match, now, sets_of, sub), tenant(tenant_shelf)
--
-- ARGV[3] count, ARGV[4..] the names of all that may hold leases
local instance_count = tonumber(ARGV[3])
local lease_holders = {}
for i = 4, 3 + instance_count do lease_holders[#lease_holders + 1] = ARGV[i] end
local args_from = 4 + instance_count

-- readable reports whether a record is whole, so that scripts can read it.
local function readable(record)
  return record and #record > 45 and #record >= 45 + string.byte(record, 43)
end

-- how_named returns how a message names a lane: yes, gone, or no. It returns none if the message is not kept, and broken
-- if the record is malformed.
local function how_named(lane, id, record)
  if not record or #record <= DIGEST then return 'none' end
  if not readable(record) then return 'broken' end
  for _, name in ipairs(lanes_of(id, record)) do
    if name == lane then return 'yes' end
    if name == '-' .. lane then return 'gone' end
  end
  return 'no'
end

local ZSETS = { { 'done', DONE }, { 'dead', DEAD }, { 'cancelled', CANCELLED }, { 'due', DUE } }
local function has_ended(place) return place == 'done' or place == 'dead' or place == 'cancelled' end

-- line_sets returns the sets in which a delivery may be. The record says which set is its key's. Without a record it is
-- seen, the set in which the delivery was found.
local function line_sets(name, record, seen)
  local sets = sets_of({ name = name }, readable(record) and record)
  if seen and seen ~= '' and BEHIND .. seen ~= sets[1] and BEHIND .. seen ~= sets[2] then sets[#sets + 1] = BEHIND .. seen end
  return sets
end

-- places_of lists where a delivery is, each with its key and its member. It does not search ready lists.
local function places_of(delivery, name, id, record, seen)
  local list = {}
  for _, zset in ipairs(ZSETS) do
    if call('ZSCORE', zset[2], delivery) then list[#list + 1] = { zset[1], zset[2], delivery } end
  end
  for _, holder in ipairs(lease_holders) do
    if call('ZSCORE', LEASES .. holder, delivery) then list[#list + 1] = { 'leased', LEASES .. holder, delivery } end
  end
  if call('ZSCORE', TAKEN, delivery) then list[#list + 1] = { 'leased', TAKEN, delivery } end
  for _, set in ipairs(line_sets(name, record, seen)) do
    local rank = call('ZRANK', set, id)
    if rank and rank > 0 then list[#list + 1] = { 'behind', set, id } end
  end
  return list
end

-- let_wait_ahead reports whether another clock, which was ahead of the present one, let a delivery wait for its time: failed after an
-- attempt, accepted when its message was accepted. It also returns the ms from which the wait counts, and those at which it ends.
local CLOCKS_DIFFER = 60000 -- ms
local function let_wait_ahead(delivery, record)
  local due, newest = tonumber(call('ZSCORE', DUE, delivery) or nil), call('LINDEX', HISTORY .. delivery, 0)
  local then_due, at, took = match(newest or '', '^(%d+) %d+ {"n":%d+,"t":(%d+),"d":(%d+)')
  local how, from
  if then_due then
    how, from = 'failed', tonumber(at) + tonumber(took)
    if tonumber(then_due) ~= due then return nil end -- something else has it wait since
  elseif call('HEXISTS', PROGRESS, delivery) == 0 then
    how, from = 'accepted', created_at(record)
  end
  if from and due and from > now + CLOCKS_DIFFER and due >= from then return how, from, due end
end

-- over_or_none reports whether a delivery that may have a last lease, or may expire, ended or is not kept.
local function over_or_none(delivery, name, id, record)
  if call('ZSCORE', TAKEN, delivery) then return false end
  if how_named(name, id, record) ~= 'yes' then return true end
  return call('ZSCORE', DONE, delivery) or call('ZSCORE', DEAD, delivery) or call('ZSCORE', CANCELLED, delivery)
end

-- unowned reports whether the lists of its tenant lack a delivery.
local function unowned(lane, id, record)
  local shelf, owner = tenant_shelf(lane, record)
  if not owner then return false end
  if not call('ZSCORE', TENANT .. owner, shelf) then return true end
  if shelf == lane then return call('HGET', OWNERS, lane) ~= owner end
  return tonumber(call('ZSCORE', SHELF .. shelf, id) or nil) ~= created_at(record)
end

-- unfound reports whether a message is not found by its token, or by its last digits, though their list is whole.
local function unfound(token, id, digits)
  local text = call('HGET', SUBJECTS, token)
  if text == '*' then return not call('ZSCORE', SUBJECT .. hex(token), id) end
  if not text or not find(' ' .. text .. ' ', ' ' .. id .. ' ', 1, true) then return true end
  if not digits then return false end
  local key = DIGITS .. sub(digits, 2)
  return not call('LPOS', key, token .. sub(digits, 1, 1)) and call('LINDEX', key, 0) ~= ''
end

-- in_line reports whether a delivery is in a line.
local function in_line(name, id, record, seen)
  for _, set in ipairs(line_sets(name, record, seen)) do
    if call('ZSCORE', set, id) then return true end
  end
  return false
end
