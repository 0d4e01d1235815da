-- adopt: give leases that end by themselves up to the calling instance, which says then what became of them, or make
-- them longer.
--
-- ARGV[3] lasts  ms until they end, from now on; 0: they are the caller's then, as those of claim
-- ARGV[4] bytes  most of heads of records to answer, but for one delivery
-- ARGV[5..]      for each: delivery, token (empty: whichever it has), owner
-- returns now, due, weight, ms when they end (0: they are the caller's), a digit for each: 0 not looked at, since the answer
--   was full, 1 done, 2 it is not taken, or by another lease, 3 it is another owner's; then for each that is the caller's:
--   delivery, ms when it was taken, progress, head of the record; "fenced" alone when the instance was declared dead
local lasts, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local deliveries = {}
for i = 5, #ARGV, 3 do deliveries[#deliveries + 1] = ARGV[i] end
if lasts == 0 and call('ZSCORE', FENCED, by) then return { 'fenced' } end
call('DEL', tag)

local codes, answer = {}, { 0, 0, 0, lasts == 0 and '0' or num(from + lasts), '' }
local mine, texts_of_mine, places, longer, met_before = {}, {}, {}, {}, {}
local texts = #deliveries > 0 and sure('HMGET', TOKENS, unpack(deliveries)) or NONE
local ends = #deliveries > 0 and sure('ZMSCORE', TAKEN, unpack(deliveries)) or NONE
for i, delivery in ipairs(deliveries) do
  local _, token, owner = since(texts[i])
  local asked, who = ARGV[3 * i + 3], ARGV[3 * i + 4]
  if not ends[i] or not token or lasts == 0 and met_before[delivery] then
    codes[i] = '2'
  elseif owner ~= who then
    codes[i] = '3'
  elseif asked ~= '' and asked ~= token then
    codes[i] = '2'
  else
    codes[i], met_before[delivery] = '1', true
    local k = #mine + 1
    mine[k], texts_of_mine[k], places[k] = delivery, texts[i], i
    put(longer, answer[4], delivery)
  end
end
if lasts > 0 then
  each('ZADD', TAKEN, longer)
else
  local before = #answer
  for k = adopt(mine, texts_of_mine, most_bytes, answer) + 1, #mine do codes[places[k]] = '0' end
  local kept = {} -- those without a record are not
  for at = before + 1, #answer, 4 do kept[answer[at]] = true end
  for k, i in ipairs(places) do
    if codes[i] == '1' and not kept[mine[k]] then codes[i] = '2' end
  end
end
set_timer()
answer[5] = table.concat(codes)
flush()
answer[1], answer[2], answer[3] = finish()
return answer
