-- doctor_records: find faults in the records of messages, and repair them.
-- needs: common(body_apart, body_of, call, drop_body, first_write, lanes_of, micros, now, sub),
--   subject(forget_subjects, note_digits, note_subjects, token_of), finish(before_due, before_weight, hint_weight),
--   doctor(args_from, places_of, readable, unfound)
--
-- ARGV[..] after the arguments of doctor: 1 to repair, 1 if fields of :bodies follow, else 0; ids or fields
-- returns now, due, weight, then for each fault: id, kind, detail
local fix = ARGV[args_from] == '1'
if fix then first_write(true) end
local answer = { micros, before_due, hint_weight(before_weight) }
local function report(id, kind, detail)
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = id, kind, detail
  return fix
end

-- mend_digits gives a token one element for each of its messages, as far as these have digits.
local function mend_digits(token, digits)
  local text = call('HGET', SUBJECTS, token)
  local key, element = DIGITS .. sub(digits, 2), token .. sub(digits, 1, 1)
  if text == '*' then return end
  call('LREM', key, 0, element)
  for one in string.gmatch(text, '%S+') do
    local _, has = token_of(call('HGET', MESSAGES, one) or '')
    if has then note_digits(token, digits) end
  end
end

-- whole judges a message that is kept whole. It must have a delivery.
local function whole(id, record, seen)
  if not readable(record) then return report(id, 'broken_record', '') end
  local token, digits = token_of(record)
  if token and unfound(token, id, digits) and report(id, 'unfound', '') then
    note_subjects({ token, id, digits })
    if digits then mend_digits(token, digits) end
  end
  if seen and report(id, 'seen', 'a message that is kept whole') then call('ZREM', SEEN, id) end
  if body_apart(record) and call('HEXISTS', BODIES, body_of(id, record)) == 0 then report(id, 'no_body', '') end
  for _, lane in ipairs(lanes_of(id, record)) do
    if lane == '' then return report(id, 'no_lanes', '') end
    if sub(lane, 1, 1) ~= '-' or #places_of(sub(lane, 2) .. ':' .. id, sub(lane, 2), id, record) > 0 then return end
  end
  if report(id, 'no_delivery', '') then
    drop_body(id, record)
    if token then forget_subjects({ token, id, digits }) end
    call('HDEL', MESSAGES, id)
    call('HDEL', FAN, id)
  end
end

-- body judges a body that lies apart. It must belong to a message, or be staged for one.
local function body(field)
  local id = sub(field, 1, -DIGEST - 2)
  local record = call('HGET', MESSAGES, id)
  if record and body_apart(record) and body_of(id, record) == field or call('ZSCORE', STAGED, field) then return end
  if report(id, 'body', '') then call('HDEL', BODIES, field) end
end

if ARGV[args_from + 1] == '1' then
  for i = args_from + 2, #ARGV do body(ARGV[i]) end
  return answer
end
for i = args_from + 2, #ARGV do
  local id = ARGV[i]
  local record, seen = call('HGET', MESSAGES, id), call('ZSCORE', SEEN, id)
  if record and #record > DIGEST then
    whole(id, record, seen)
  else
    if call('HEXISTS', FAN, id) == 1 and report(id, 'fan', '') then call('HDEL', FAN, id) end
    if not record and seen then
      if report(id, 'seen', 'no digest') then call('ZREM', SEEN, id) end
    elseif record and not seen then
      if report(id, 'unseen', '') then call('ZADD', SEEN, now, id) end
    end
  end
end
return answer
