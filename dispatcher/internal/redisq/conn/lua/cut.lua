-- cut: how ended deliveries are forgotten. It is put before trim, purge and erase. It takes no arguments of its own: ARGV[3..] is
-- the script's.
-- needs: common(at_now, call, drop_body, in_chunks, split, sub, sure), tenant(remove_from_shelf,
--   remove_from_tenant_shelves, remove_owners), subject(forget_subjects, token_of), sums(sums)
local has_bodies = call('HLEN', BODIES) > 0 -- mostly not: then no record is read

local has_more = 0 -- 1: a list was cut

-- fans are the lanes of messages by id, read once for all their deliveries, a few at a time. The entry is false if a
-- message has one lane only. One message may have a thousand lanes. So limit_by_fans cuts a list if the lanes read so far are
-- more than FAN_BYTES.
local has_fans = call('HLEN', FAN) > 0 -- mostly not: then each message has one lane
local fans, fan_bytes_read = {}, 0
local function limit_by_fans(deliveries)
  local FAN_BYTES = 65536 -- of messages' lanes that one call goes through: some 4,000 lanes, a ms
  local FANS_READ = 4
  if not has_fans then return deliveries end

  local function parse_fan(text)
    local fan = { list = {}, at = {}, left = 0 }
    for name in string.gmatch(text, '%S+') do
      if not fan.at[name] then fan.list[#fan.list + 1] = name end
      if sub(name, 1, 1) ~= '-' and not fan.at[name] then
        fan.at[name] = #fan.list
        fan.left = fan.left + 1
      end
    end
    return fan
  end

  local some = {}
  for from = 1, #deliveries, FANS_READ do
    if fan_bytes_read >= FAN_BYTES then
      has_more = 1
      return some
    end
    local ids = {}
    for i = from, math.min(from + FANS_READ - 1, #deliveries) do
      local _, id = split(deliveries[i])
      if fans[id] == nil then
        fans[id] = false
        ids[#ids + 1] = id
      end
      some[i] = deliveries[i]
    end
    local texts = #ids > 0 and sure('HMGET', FAN, unpack(ids)) or {}
    for i, text in ipairs(texts) do
      if text then
        fan_bytes_read = fan_bytes_read + #text
        fans[ids[i]] = parse_fan(text)
      end
    end
  end
  return some
end

-- forget_messages removes records whose last delivery went, or cuts them to their digest.
local function forget_messages(ids, digest)
  local RECORDS_READ = 64 -- at a time
  if #ids == 0 then return end
  local gone, cut, seen, subjects = ids, {}, {}, {}
  if digest or has_bodies or call('EXISTS', SUBJECTS) == 1 then
    gone = {}
    for from = 1, #ids, RECORDS_READ do
      local some = { unpack(ids, from, math.min(from + RECORDS_READ - 1, #ids)) }
      for i, record in ipairs(sure('HMGET', MESSAGES, unpack(some))) do
        if record and has_bodies then drop_body(some[i], record) end
        local token, digits = token_of(record or '')
        if token then
          subjects[#subjects + 1] = token
          subjects[#subjects + 1] = some[i]
          subjects[#subjects + 1] = digits
        end
        if record and digest then
          cut[#cut + 1], cut[#cut + 2] = some[i], sub(record, 1, DIGEST)
          seen[#seen + 1], seen[#seen + 2] = at_now, some[i]
        elseif record then
          gone[#gone + 1] = some[i]
        end
      end
    end
  end
  if #subjects > 0 then forget_subjects(subjects) end
  in_chunks('HDEL', MESSAGES, gone)
  in_chunks('HSET', MESSAGES, cut)
  in_chunks('ZADD', SEEN, seen)
end

-- forget_deliveries removes deliveries, as many as fit, from an end zset. With the last lane of a message the message goes too.
local function forget_deliveries(key, deliveries, digest)
  if #deliveries == 0 then return end
  in_chunks('ZREM', key, deliveries)
  in_chunks('HDEL', PROGRESS, deliveries)
  local histories, whole, last, changed, shelved = {}, {}, {}, {}, {}
  for i, delivery in ipairs(deliveries) do
    local lane, id = split(delivery)
    histories[i] = HISTORY .. delivery
    local ids = shelved[lane]
    if not ids then
      ids = {}
      shelved[lane] = ids
    end
    ids[#ids + 1] = id
    local fan = fans[id]
    if fan and fan.at[lane] then
      fan.list[fan.at[lane]] = '-' .. lane
      fan.at[lane] = nil
      fan.left = fan.left - 1
      changed[id] = true
    end
    if not fan or fan.left == 0 then
      changed[id] = nil
      if fan then last[#last + 1] = id end
      whole[#whole + 1] = id
    end
  end
  call('DEL', unpack(histories))
  local bare, idle = {}, {}
  for lane, ids in pairs(shelved) do
    if sub(lane, 1, 2) == 'q_' then remove_from_tenant_shelves(lane, ids, bare) end
    if remove_from_shelf(lane, ids) then
      bare[#bare + 1] = lane
      idle[#idle + 1] = lane
    end
  end
  if #bare > 0 then remove_owners(bare) end
  if #idle > 0 then -- these stay as long as a delivery of the lane; trim may have forgotten its state before
    in_chunks('HDEL', IN, idle)
    local texts, limits, left = sure('HMGET', LANE, unpack(idle)), sure('HMGET', LIMITS, unpack(idle)), {}
    for i, lane in ipairs(idle) do
      if not texts[i] and not limits[i] then left[#left + 1] = lane end
    end
    if #left > 0 then
      sums.left = (sums.left or 0) + sure('ZREM', KNOWN, unpack(left)) -- trim returns the number of lanes
      sure('HDEL', NAMES, unpack(left))
    end
  end
  in_chunks('HDEL', FAN, last)
  forget_messages(whole, digest)
  for id in pairs(changed) do sure('HSET', FAN, id, table.concat(fans[id].list, ' ')) end
end
