-- doctor_shelves: find wrong entries about shelves, the lists of :of:, and remove them. It also adds deliveries that the lists of
-- their tenants lack. It removes subject entries of messages that have other subjects, or are gone.
-- needs: common(call, first_write, hex, match, micros, split, sub), tenant(put_on_shelves, remove_owners,
--   tenant_shelf), subject(forget_subjects, token_of), finish(before_due, before_weight, hint_weight),
--   doctor(args_from, how_named, unowned)
--
-- ARGV[..] after the arguments of doctor: 1 to repair, the kind of the names: tenant (a tenant's list), owners, of (the part that a
--   tenant has of a queue), deliveries, subjects, subject (the messages of one), or digits, which one (a hash, nothing, a shelf,
--   nothing, nothing, a hash, three digits), then names: shelves, lanes, messages, deliveries, tokens, messages, elements
-- returns now, due, weight, then for each fault: name, kind, detail
local fix, kind, of = ARGV[args_from] == '1', ARGV[args_from + 1], ARGV[args_from + 2]
if fix then first_write(true) end
local answer = { micros, before_due, hint_weight(before_weight) }

local function holds(shelf) return call('EXISTS', SHELF .. shelf) == 1 end

local tests = {
  tenant = function(shelf)
    local owner = #shelf > 17 and match(shelf, '~(%x+)$') or call('HGET', OWNERS, shelf)
    return owner == of and holds(shelf)
  end,
  owners = function(lane) return holds(lane) and sub(lane, 1, 2) ~= 'q_' end,
  of = function(id)
    local lane, record = sub(of, 1, -18), call('HGET', MESSAGES, id)
    return how_named(lane, id, record) == 'yes' and tenant_shelf(lane, record) == of
  end,
}
tests.subject = function(id)
  local record = call('HGET', MESSAGES, id)
  local token = record and token_of(record)
  return token and hex(token) == of
end
tests.digits = function(element)
  return element == '' or call('HEXISTS', SUBJECTS, sub(element, 1, 8)) == 1 -- an empty one stands for those that were cut away
end

-- judge_token removes messages with another subject from a field. If the field is *, its list must exist.
local function judge_token(token)
  local text = call('HGET', SUBJECTS, token) or ''
  if text == '*' and call('EXISTS', SUBJECT .. hex(token)) == 0 then
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = hex(token), 'astray_subject', ''
    if fix then call('HDEL', SUBJECTS, token) end
  end
  for id in string.gmatch(text == '*' and '' or text, '%S+') do
    local record = call('HGET', MESSAGES, id)
    if not record or token_of(record) ~= token then
      answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = id, 'astray_subject', ''
      if fix then forget_subjects({ token, id, false }) end
    end
  end
end

local keys_of = { tenant = { 'ZREM', TENANT .. of }, owners = { 'HDEL', OWNERS }, of = { 'ZREM', SHELF .. of }, subject = { 'ZREM', SUBJECT .. of } }
local words = { subject = 'astray_subject', digits = 'astray_digits' }
for i = args_from + 3, #ARGV do
  if kind == 'deliveries' then
    local lane, id = split(ARGV[i])
    local record = call('HGET', MESSAGES, id)
    if how_named(lane, id, record) == 'yes' and unowned(lane, id, record) then
      answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = ARGV[i], 'unlisted', 'of its tenant'
      if fix then put_on_shelves(lane, id, record) end
    end
  elseif kind == 'subjects' then
    judge_token(ARGV[i])
  elseif not tests[kind](ARGV[i]) then
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = kind == 'digits' and hex(ARGV[i]) or ARGV[i], words[kind] or 'astray_shelf', ''
    if fix and kind == 'digits' then
      call('LREM', DIGITS .. of, 0, ARGV[i])
    elseif fix then
      call(keys_of[kind][1], keys_of[kind][2], ARGV[i])
    end
  end
end
if fix and kind == 'of' and not holds(of) then remove_owners({ of }) end
return answer
