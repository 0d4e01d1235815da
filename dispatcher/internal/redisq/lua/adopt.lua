-- adopt: give leases of consumers to the calling instance, which settles their outcome then, or extend them. Of a lease that has
-- ended it returns whether it was the last one of its owner.
-- needs: common(by, call, ceil_now, first_write, in_chunks, match, now, num, sure), sums(append_pair), finish(finish),
--   ends(write_ends), taken(adopt_taken, parse_token, set_timer)
--
-- ARGV[3] lasts  ms until they end, from now on; 0: they are the caller's then, as leases of claim
-- ARGV[4] bytes  most of heads of records to answer, but for one delivery
-- ARGV[5..]      for each: delivery, token (empty: the last one that the owner had; behind -: its owner never got it,
--                and it is forgotten), owner
-- returns now, due, weight, ms when they end (0: they are the caller's), a digit for each: 0 not read, because the answer was
--   full, 1 done, 2 it is not taken, or by another lease, 3 it is another owner's; place and number of the attempt of
--   each with 2 and no token whose last lease is known; then for each that is the caller's: delivery, ms when it was taken,
--   progress, head of the record; "fenced" alone when the instance was declared dead
local KEPT = 86400000 -- ms for which a lease that has ended is its owner's

local lasts, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local deliveries, never_told = {}, {}
for i = 5, #ARGV, 3 do deliveries[#deliveries + 1] = ARGV[i] end
if lasts == 0 and call('ZSCORE', FENCED, by) then return { 'fenced' } end
first_write()

local codes, answer = {}, { 0, 0, 0, lasts == 0 and '0' or num(ceil_now + lasts), '', {} }
local mine, texts_of_mine, places, longer, met_before = {}, {}, {}, {}, {}
local texts = #deliveries > 0 and sure('HMGET', TOKENS, unpack(deliveries)) or NONE
local ends = #deliveries > 0 and sure('ZMSCORE', TAKEN, unpack(deliveries)) or NONE
for i, delivery in ipairs(deliveries) do
  local since, token, owner, attempt = parse_token(texts[i])
  local untold, asked = match(ARGV[3 * i + 3], '^(%-?)(.*)$')
  if not token or asked ~= '' and asked ~= token or lasts == 0 and never_told[delivery] then
    codes[i] = '2'
  elseif owner ~= ARGV[3 * i + 4] then
    codes[i] = '3'
  elseif not ends[i] or lasts == 0 and met_before[delivery] then
    codes[i] = '2'
    if asked == '' and tonumber(since) >= now - KEPT then append_pair(answer[6], i, attempt) end
  else
    codes[i], met_before[delivery] = '1', true
    local k = #mine + 1
    mine[k], texts_of_mine[k], places[k] = delivery, texts[i], i
    append_pair(longer, answer[4], delivery)
    if untold == '-' then never_told[delivery] = true end
  end
end
if lasts > 0 then
  in_chunks('ZADD', TAKEN, longer)
else
  local before = #answer
  for k = adopt_taken(mine, texts_of_mine, most_bytes, answer) + 1, #mine do codes[places[k]] = '0' end
  local kept = {} -- those without a record are not
  for at = before + 1, #answer, 4 do kept[answer[at]] = true end
  for k, i in ipairs(places) do
    if codes[i] == '1' and not kept[mine[k]] then codes[i] = '2' end
    if codes[i] == '1' and never_told[mine[k]] then sure('HDEL', TOKENS, mine[k]) end
  end
end
set_timer()
answer[5] = table.concat(codes)
write_ends()
answer[1], answer[2], answer[3] = finish()
return answer
