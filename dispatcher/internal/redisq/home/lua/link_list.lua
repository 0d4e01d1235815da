-- link_list: read links, newest first, and remove those that have expired.
-- needs: access_common(LINKED, call, live, remove)
--
-- ARGV[1] below  the score that all of them are below; empty: from the newest
-- ARGV[2] most   links that are looked at
-- returns the cursor of the next call, empty at the end; then id, record of each
local below, most = ARGV[1], tonumber(ARGV[2])
local found = call('ZREVRANGEBYSCORE', LINKED, below == '' and '+inf' or '(' .. below, '-inf', 'WITHSCORES', 'LIMIT', 0, most)
local out = { #found == 2 * most and found[#found] or '' }
for i = 1, #found, 2 do
  local record = live(found[i])
  if record then
    out[#out + 1], out[#out + 2] = found[i], record
  else
    remove(found[i])
  end
end
return out
