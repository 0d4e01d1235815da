-- torn: let one caller mend a torn partition, and end that. The mark is the key of the tag (script.go). It is - after a script
-- was torn, and "<caller> <ms>" while a caller mends. A script of the caller that is torn makes it - again.
-- needs: common(by, call, match, now, num, tag)
--
-- ARGV[3] what  l: look; t: begin to mend, or go on; e: it is mended
-- returns 0: it is not torn, or not any more; 1: it is, and the caller mends it; 2: it is, and another caller mends it
local LAPSE = 30000 -- ms after which a caller that says nothing has ended
if call('EXISTS', tag) == 0 then return { 0 } end
local text = redis.pcall('GET', tag) -- another kind, if SET was not allowed
local holder, at = match(type(text) == 'string' and text or '', '^(%S+) (%d+)$')
local others = holder and holder ~= by and math.abs(now - tonumber(at)) < LAPSE
if ARGV[3] == 'l' then return { others and 2 or 1 } end
if others then return { 2 } end
if ARGV[3] == 'e' and holder ~= by then return { 1 } end
call('DEL', tag)
if ARGV[3] == 'e' then return { 0 } end
call('SET', tag, by .. ' ' .. num(now))
return { 1 }
