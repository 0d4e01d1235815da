-- leases: the leases of the calling instance. It is put behind common. It takes no arguments of its own: ARGV[3..] is the
-- script's.
-- needs: common(by, call, in_chunks, sure)

-- force_table makes Redis store a hash of lanes as a table, which finds a field at once. Redis stores up to 512 short texts as
-- a list and walks it in each query; most stores have no more lanes. A long text makes the hash a table until it is deleted.
-- The hash must have a field already, because it would be deleted with the long field otherwise.
local LONG_FIELD = '                                                                 '
local function force_table(hash) -- rare
  call('HSET', hash, ' ', LONG_FIELD)
  call('HDEL', hash, ' ')
end

-- write_leases writes leases of the caller: times and deliveries. Redis stores up to 128 of them as a list too, as many as one
-- lane may have in flight. An instance with one busy lane walks that list three times for each delivery. So the list becomes
-- a table, except for a few leases.
local MANY_LEASES = 8
local function write_leases(leases)
  local key = LEASES .. by
  if #leases < 2 * MANY_LEASES then return in_chunks('ZADD', key, leases) end
  sure('ZADD', key, '0', LONG_FIELD)
  in_chunks('ZADD', key, leases)
  call('ZREM', key, LONG_FIELD)
end
