-- access_common: names, the clock, and which link is there. It is a part before each script of this folder.
--
-- KEYS[1] tag    {<project>}, under which lie
--   :session:<k> hash  of an API key, by its owner text. The SHA-256 of a token in hex -> its session: <began ms> <ends ms>
--                      <MAC>; opened -> <since ms> <how often people signed in since>. Its TTL only tidies
--   :shown:<h>   hash  of a session, a link or the local operator, by the SHA-256 of its name: SHA-256 of an id in hex ->
--                      <ends ms> <sealed page>. Its TTL only tidies
--   :links       hash  id -> its record: <SHA-256 of its token in hex> <created ms> <expires ms> <spent> <MAC> <its rights,
--                      as JSON>; spent has the ms of its calls within an hour with commas between, or -
--   :linked      zset  id by when it was made: no two have one score
--   :lapse       zset  id by when it expires
-- ARGV[...]      of the script
local tag, call = KEYS[1], redis.call
local SESSION, SHOWN, LINKS, LINKED, LAPSE = tag .. ':session:', tag .. ':shown:', tag .. ':links', tag .. ':linked', tag .. ':lapse'
local OPENED = 'opened'
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function num(n) return string.format('%.0f', n) end

local function remove(id)
  call('HDEL', LINKS, id)
  call('ZREM', LINKED, id)
  call('ZREM', LAPSE, id)
end

-- live returns the record of a link, unless it has expired. A malformed record is no link.
local function live(id)
  local record = call('HGET', LINKS, id)
  local expires = record and tonumber(string.match(record, '^%x+ %d+ (%d+) %S+ .') or 0)
  return expires and expires > now and record or nil
end
