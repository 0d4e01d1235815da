-- repartition_put: take over messages of another partition. A repeat changes nothing.
-- needs: common(call, first_addition, lanes_of, now, sub), named(parse_named, write_known_id, write_named)
--
-- ARGV[3..] for each: id, record (the digest alone where no lane of it is kept), its lanes here, ms since when only the id
--           is known (0: now)
-- returns for each: 1 taken, 0 not, because another message has that id here
local answer = {}
first_addition(true)
for i = 3, #ARGV, 4 do
  local id, record, names, ms = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local old = call('HGET', MESSAGES, id)
  local same = not old or sub(old, 1, DIGEST) == sub(record, 1, DIGEST)
  local whole = old and #old > DIGEST
  local _, living = parse_named(names)
  answer[#answer + 1] = 1
  if whole and not same then
    if living then answer[#answer] = 0 end -- of two messages with one id, the one with deliveries counts
  elseif whole then
    write_named(id, old, (parse_named(table.concat(lanes_of(id, old), ' ') .. ' ' .. names)))
  elseif living then
    if old and same then names = names .. ' -*' end
    write_named(id, record, (parse_named(names)))
  elseif same then
    write_known_id(id, record, ms > 0 and ms or now)
  end
end
return answer
