-- subject: how messages are found by their subjects. It is put behind tenant. It takes no arguments of its own:
-- ARGV[3..] is the script's.
-- needs: common(call, created_at, find, hex, match, num, sub, sure)
--
-- A field of :subjects is the hash of a subject's token, which the record has, and names the messages with it. The field
-- has up to 16 ids. If there are more, all are in :subject:<hash in hex>, and the field is *.

-- token_of returns the 8 bytes of the token in a record, nil if its message has no subject. They are the first field of its
-- meta, behind the size of a body in :bodies.
local function token_of(record)
  if #record < HEAD then return nil end
  local byte, at = string.byte, 47 + string.byte(record, HEAD)
  local kind, length = byte(record, at, at + 1)
  if kind == 12 and length then -- the size of a body
    at = at + 2 + length
    kind = byte(record, at)
  end
  return kind == 16 and #record >= at + 9 and sub(record, at + 2, at + 9) or nil
end

-- note_subjects indexes messages by their tokens: a list of token and id. Known messages stay.
local function note_subjects(list)
  local MOST, texts, tokens, changed = 16, {}, {}, {}
  for i = 1, #list, 2 do
    if texts[list[i]] == nil then
      texts[list[i]] = false
      tokens[#tokens + 1] = list[i]
    end
  end
  for i, text in ipairs(sure('HMGET', SUBJECTS, unpack(tokens))) do texts[tokens[i]] = text end
  for i = 1, #list, 2 do
    local token, id = list[i], list[i + 1]
    local text, ids = texts[token], nil
    if not text then
      texts[token], changed[token] = id, true
    elseif text ~= '*' and not find(' ' .. text .. ' ', ' ' .. id .. ' ', 1, true) then
      text = text .. ' ' .. id
      if select(2, string.gsub(text, ' ', ' ')) >= MOST then
        ids = {}
        for one in string.gmatch(text, '%S+') do ids[#ids + 1] = one end
        text = '*'
      end
      texts[token], changed[token] = text, true
    elseif text == '*' then
      ids = { id }
    end
    for _, one in ipairs(ids or {}) do
      local record = sure('HGET', MESSAGES, one)
      if record then sure('ZADD', SUBJECT .. hex(token), num(created_at(record)), one) end
    end
  end
  local fields = {}
  for token in pairs(changed) do fields[#fields + 1], fields[#fields + 2] = token, texts[token] end
  if #fields > 0 then sure('HSET', SUBJECTS, unpack(fields)) end
end

-- forget_subjects removes messages from the index: a list of token and id.
local function forget_subjects(list)
  local tokens = {}
  for i = 1, #list, 2 do tokens[(i + 1) / 2] = list[i] end
  local texts, gone = {}, {}
  for i, text in ipairs(sure('HMGET', SUBJECTS, unpack(tokens))) do
    if texts[tokens[i]] == nil then texts[tokens[i]] = text end
  end
  for i = 1, #list, 2 do
    local token, id = list[i], list[i + 1]
    local text, rest = texts[token], nil
    if text == '*' then
      local key = SUBJECT .. hex(token)
      sure('ZREM', key, id)
      rest = call('EXISTS', key) == 1 and '*' or ''
    elseif text then
      local from, to = find(' ' .. text .. ' ', ' ' .. id .. ' ', 1, true)
      rest = from and match(sub(' ' .. text, 1, from) .. sub(text .. ' ', to), '^%s*(.-)%s*$') or text
    end
    if rest == '' then
      gone[#gone + 1] = token
      texts[token] = false
    elseif rest and rest ~= text then
      sure('HSET', SUBJECTS, token, rest)
      texts[token] = rest
    end
  end
  if #gone > 0 then sure('HDEL', SUBJECTS, unpack(gone)) end
end
