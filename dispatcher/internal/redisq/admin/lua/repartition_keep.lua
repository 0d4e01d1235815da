-- repartition_keep: remove the part of messages that other partitions took over.
-- needs: common(call, drop_body, first_write, now), subject(forget_subjects, token_of), named(parse_named,
--   write_known_id, write_named)
--
-- ARGV[3..] for each: id, the lanes that stay (empty: none, it goes)
-- returns nothing
first_write(true)
for i = 3, #ARGV, 2 do
  local id = ARGV[i]
  local record = call('HGET', MESSAGES, id)
  local list, living = parse_named(ARGV[i + 1])
  if not record or #list == 0 then
    local token, digits = token_of(record or '')
    if record then drop_body(id, record) end
    if token then forget_subjects({ token, id, digits }) end
    call('HDEL', MESSAGES, id)
    call('HDEL', FAN, id)
    call('ZREM', SEEN, id)
  elseif living and #record > DIGEST then
    write_named(id, record, list)
  else
    write_known_id(id, record, now)
  end
end
return {}
