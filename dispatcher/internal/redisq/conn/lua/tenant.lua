-- tenant: the tenants of shelves. A shelf is a list of :of:. It is put behind common. It takes no arguments of its
-- own: ARGV[3..] is the script's.
-- needs: common(call, created_at, in_chunks, match, num, sub, sure)

-- origin_and_tenant returns the origin of the URL of a message and its tenant, or its queue, as :names has them, or nil if the
-- message has neither. It also returns the tenant, empty for none. The meta of a record (codec_record.go) has fields of a tag, a length and
-- a text, the tenant before the URL.
local function origin_and_tenant(record)
  local TENANT_FIELD, URL, QUEUE = 2, 3, 15
  local byte = string.byte
  local at = 44 + (byte(record, 43) or 0)
  local a, b = byte(record, at, at + 1)
  if not b then return nil, '' end
  local behind, tenant = at + 2 + a * 256 + b, ''
  at = at + 3
  while at + 1 < behind do
    local kind, length, factor = byte(record, at), 0, 1
    repeat
      at = at + 1
      local part = byte(record, at) or 0
      length, factor = length + part % 128 * factor, factor * 128
    until part < 128
    local text = sub(record, at + 1, at + length)
    if kind == TENANT_FIELD then tenant = text end
    if kind == URL then
      local origin = match(string.gsub(text, '^(%a+://)[^/?#]*@', '%1'), '^%a+://[^/?#]+')
      return origin and string.lower(origin) .. ' ' .. tenant, tenant
    end
    if kind == QUEUE then return text, tenant end
    at = at + 1 + length
  end
  return nil, tenant
end

-- tenant_shelf returns the shelf of the tenant of a delivery, and the hash of the tenant, with the key of the project as
-- TenantHash of package conn makes it. It returns nil if the message has no tenant. A queue mixes tenants, so each tenant has its
-- own shelf there.
local function tenant_shelf(lane, record)
  local _, tenant = origin_and_tenant(record)
  if tenant == '' then return nil end
  local owner = sub(redis.sha1hex(match(ARGV[2], '(%x+) %x+$') .. 't' .. tenant), 1, 16)
  return sub(lane, 1, 2) == 'q_' and lane .. '~' .. owner or lane, owner
end

-- add_tenant_shelf adds a shelf to the list of its tenant.
local function add_tenant_shelf(shelf, owner) -- rare
  sure('ZADD', TENANT .. owner, '0', shelf)
  if sub(shelf, 1, 2) ~= 'q_' then sure('HSET', OWNERS, shelf, owner) end
end

-- put_on_shelves adds a delivery to the shelves of its lane and of its tenant.
local function put_on_shelves(lane, id, record)
  local at, shelf, owner = num(created_at(record)), tenant_shelf(lane, record)
  sure('ZADD', SHELF .. lane, at, id)
  if not owner then return end
  if shelf ~= lane then sure('ZADD', SHELF .. shelf, at, id) end
  add_tenant_shelf(shelf, owner)
end

-- remove_owners removes empty shelves from the lists of their tenants.
local function remove_owners(shelves)
  local owners = sure('HMGET', OWNERS, unpack(shelves))
  for i, shelf in ipairs(shelves) do
    local owner = owners[i] or #shelf > 17 and match(shelf, '~(%x+)$')
    if owner then sure('ZREM', TENANT .. owner, shelf) end
  end
  sure('HDEL', OWNERS, unpack(shelves))
end

-- remove_from_shelf removes messages from a shelf, and reports whether it is empty then.
local function remove_from_shelf(shelf, ids)
  in_chunks('ZREM', SHELF .. shelf, ids)
  return call('EXISTS', SHELF .. shelf) == 0
end

-- remove_from_tenant_shelves removes messages from the shelves of tenants in a queue. It appends the shelves that are empty then to bare.
local function remove_from_tenant_shelves(lane, ids, bare)
  local RECORDS_READ = 64 -- at a time
  local lists = {}
  for from = 1, #ids, RECORDS_READ do
    local some = { unpack(ids, from, math.min(from + RECORDS_READ - 1, #ids)) }
    for i, record in ipairs(sure('HMGET', MESSAGES, unpack(some))) do
      local shelf = record and #record > DIGEST and tenant_shelf(lane, record)
      if shelf then
        lists[shelf] = lists[shelf] or {}
        table.insert(lists[shelf], some[i])
      end
    end
  end
  for shelf, list in pairs(lists) do
    if remove_from_shelf(shelf, list) then bare[#bare + 1] = shelf end
  end
end
