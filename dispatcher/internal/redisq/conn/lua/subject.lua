-- subject: how messages are found by their subjects. It is put behind tenant. It takes no arguments of its own:
-- ARGV[3..] is the script's.
-- needs: common(call, created_at, find, hex, match, num, sub, sure)
--
-- A field of :subjects is the hash of a subject's token, which the record has, and names the messages with it. The field
-- has up to 16 ids. If there are more, all are in :subject:<hash in hex>, and the field is *.
--
-- A token that ends with four digits is also found by these. The record has them behind the token, unless an older version made
-- it. The list :digits:<last three> has an element for each such message that came while its field was no *: the token and the
-- fourth digit from the end. One list has a few of all tokens, so that to remove an element costs little. An instance of an
-- older version leaves elements there, which find nothing.
--
-- A list that has lost its oldest elements has an empty one in their place. It stays, since nobody counts the messages that
-- have lost theirs: at most one in each of a thousand lists. Elements stay there until the last message of their token goes.
local MOST_DIGITS = 4096 -- elements of one list: to remove the last one of them takes 180 us, the first one 1. The newest stay

-- token_of returns the 8 bytes of the token in a record and its last four digits, false if it has none; nil if its message has
-- no subject. They are the first field of its meta, behind the size of a body in :bodies.
local function token_of(record)
  if #record < HEAD then return nil end
  local byte, at = string.byte, 47 + string.byte(record, HEAD)
  local kind, length = byte(record, at, at + 1)
  if kind == 12 and length then -- the size of a body
    at = at + 2 + length
    kind = byte(record, at)
  end
  if kind ~= 16 or #record < at + 9 then return nil end
  return sub(record, at + 2, at + 9), byte(record, at + 1) == 12 and sub(record, at + 10, at + 13)
end

-- note_digits adds a message of a token to the list of its last digits.
local function note_digits(token, digits)
  local key = DIGITS .. sub(digits, 2)
  if sure('RPUSH', key, token .. sub(digits, 1, 1)) > MOST_DIGITS then
    sure('LPOP', key) -- the empty one, but for the first time
    sure('LSET', key, 0, '')
  end
end

-- note_subjects indexes messages by their tokens: a list of token, id and digits. Known messages stay.
local function note_subjects(list)
  local MOST, texts, tokens, changed = 16, {}, {}, {}
  for i = 1, #list, 3 do
    if texts[list[i]] == nil then
      texts[list[i]] = false
      tokens[#tokens + 1] = list[i]
    end
  end
  for i, text in ipairs(sure('HMGET', SUBJECTS, unpack(tokens))) do texts[tokens[i]] = text end
  for i = 1, #list, 3 do
    local token, id, digits = list[i], list[i + 1], list[i + 2]
    local text, ids = texts[token], nil
    local fresh = not text or text ~= '*' and not find(' ' .. text .. ' ', ' ' .. id .. ' ', 1, true)
    if fresh and digits then note_digits(token, digits) end
    if not text then
      texts[token], changed[token] = id, true
    elseif fresh then
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

-- forget_subjects removes messages from the index: a list of token, id and digits.
local function forget_subjects(list)
  local tokens = {}
  for i = 1, #list, 3 do tokens[(i + 2) / 3] = list[i] end
  local texts, gone = {}, {}
  for i, text in ipairs(sure('HMGET', SUBJECTS, unpack(tokens))) do
    if texts[tokens[i]] == nil then texts[tokens[i]] = text end
  end
  for i = 1, #list, 3 do
    local token, id, digits = list[i], list[i + 1], list[i + 2]
    local text, rest, copies = texts[token], nil, nil
    if text == '*' then
      local key = SUBJECT .. hex(token)
      sure('ZREM', key, id)
      rest = call('EXISTS', key) == 1 and '*' or ''
      if rest == '' then copies = 0 end -- all
    elseif text then
      local from, to = find(' ' .. text .. ' ', ' ' .. id .. ' ', 1, true)
      if from then copies = 1 end
      rest = from and match(sub(' ' .. text, 1, from) .. sub(text .. ' ', to), '^%s*(.-)%s*$') or text
    end
    if copies and digits then
      local key = DIGITS .. sub(digits, 2)
      if call('LINDEX', key, 0) == '' then copies = rest == '' and 0 end -- it may be the one of a newer message
      if copies then sure('LREM', key, copies, token .. sub(digits, 1, 1)) end
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
