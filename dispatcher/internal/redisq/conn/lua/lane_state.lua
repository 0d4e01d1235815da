-- lane_state: the state of the lanes that a script reads, and the texts of :lane. It is put behind limits. It takes no
-- arguments of its own: ARGV[3..] is the script's.
-- needs: common(call, find, format, match, micros, now, num, sure), limits(limits_of, pauses_all)
--
-- Fields of a lane that scripts set: ready is the length of its ready list, nil before it was read. place is true if the list
-- got its first element or a limit changed. emptied is true if the list lost its last element. finish places a lane again
-- only because of one of these, or because its number of deliveries in flight changed. So a lane in steady use keeps its turn.
local lanes, loaded, parsed_lanes = {}, {}, {} -- by name; in the order of reading, with the partition's epoch; by text
local all_paused -- nil before it was read

local FRESH = { slow = UNKNOWN, rest = '0 0 0 0 0', more = ' 0 0', fails = 0, opened = 0, till = 0, tat = 0, keys = 0, failing = 0, egress = 0, wait = 0 }

-- parse_lane reads a text of :lane. A malformed text counts as a new lane, because it must not stop other lanes. more is the
-- end of the text, which only the functions of this part read and write.
local function parse_lane(text)
  local s = parsed_lanes[text]
  if not s then
    s = FRESH
    local width, class = match(text, '^(%d+) 0 0 0 0 0 (%d) 0 0$') -- of most lanes: all is well, and no rate and no key
    if width then
      s = {
        window = width + 0, slow = class + 0, rest = '0 0 0 0 0', more = ' 0 0',
        fails = 0, opened = 0, till = 0, tat = 0, keys = 0, failing = 0, egress = 0, wait = 0,
      }
      if s.window < 1 or s.slow > WORST or s.window >= SANE then s = FRESH end
      parsed_lanes[text] = s
      return s
    end
    local w, rest, f, o, u, t, k, c, more, since = match(text, '^(%d+) ((%d+) (%d+) (%d+) (%d+) (%d+)) (%d+)( (%d+) %d+.*)$')
    if more then
      local away, wait
      if find(more, 'e', 1, true) then away, wait = match(more, ' e(%d+)-(%d+)$') end
      s = {
        window = w + 0, slow = c + 0, rest = rest, more = more,
        fails = f + 0, opened = o + 0, till = u + 0, tat = t + 0, keys = k + 0, failing = since + 0,
        egress = tonumber(away) or 0, wait = tonumber(wait) or 0,
      }
      if s.window < 1 or s.slow > WORST or math.max(s.window, s.fails, s.opened, s.till, s.tat, s.keys, s.failing, s.egress, s.wait) >= SANE then s = FRESH end
    end
    parsed_lanes[text] = s
  end
  return s
end

-- lane_text writes the text of :lane for a lane.
local function lane_text(l)
  local s = l.state
  local rest = l.own and format('%d %d %d %d %d', s.fails, s.opened, s.till, s.tat, s.keys) or s.rest
  return format('%d %s %d%s', l.window, rest, l.slow, s.more)
end

-- writable returns the state of a lane for changes. Until then, lanes with equal texts share one parsed state.
local function writable(l)
  if not l.own then
    local s = l.state
    l.state = {
      fails = s.fails, opened = s.opened, till = s.till, tat = s.tat, keys = s.keys, failing = s.failing, more = s.more,
      egress = s.egress, wait = s.wait,
    }
    l.own = true
  end
  return l.state
end

-- set_failing sets the ms since when a lane fails (0: it does not), the number that follows, and the ms of its last attempt.
local function set_failing(l, since, reported, last) -- rare
  local s = writable(l)
  local beyond = string.gsub(match(s.more, '^ %d+ %d+(.*)$') or '', '^ %d+', '')
  s.failing, s.more = since, ' ' .. num(since) .. ' ' .. reported .. ' ' .. last .. beyond
end

-- last_failing_attempt returns the number after the ms since when a lane fails, and the ms of its last attempt, empty if
-- there was none.
local function last_failing_attempt(l) return match(l.state.more, '^ %d+ (%d+) ?(%d*)') end

-- wait_letter returns the letter of the reason why a lane waits, nil if its receiver asked for the wait.
local function wait_letter(l) return match(l.state.more, ' (%l)[%d-]*$') end

-- start_wait lets a lane wait for some ms. letter: the reason as in :lane, nil if its receiver asked for the wait.
local function start_wait(l, letter, ms)
  local s, why = writable(l), letter and ' ' .. letter or ''
  if letter == 'e' then
    if s.egress == 0 then s.egress = now end
    s.wait = ms
    why = why .. num(s.egress) .. '-' .. num(ms)
  else
    s.egress, s.wait = 0, 0
  end
  s.till = now + ms
  s.more = string.gsub(s.more, ' %l[%d-]*$', '') .. why
end

-- end_network_wait ends the wait of a lane for our own network.
local function end_network_wait(l)
  local s = writable(l)
  s.more, s.egress, s.wait = (string.gsub(s.more, ' e[%d-]+$', '')), 0, 0
  return s
end

-- correct_clock corrects a time that is further ahead than an attempt can set it. It counts as now, because another clock set
-- it: that clock was set back, or another node took over. A turn has 8 deliveries at most, so 9 intervals and the burst are
-- more than an attempt sets. A receiver may ask for a wait of a day. One second is allowed for the difference of two clocks
-- in a failover, one minute in a wait of a day.
local function correct_clock(l)
  local s, interval = l.state, l.limits.interval
  if interval > 0 and s.tat > micros + 9 * interval + BURST + 1000000 then
    writable(l).tat, l.place = micros, true
  end
  if s.till > now + 86460000 then
    writable(l).till, l.place = now, true
  end
end

-- parse_in reads a text of :in: the deliveries of a lane in flight, and the waiting ones. A malformed text counts as none
-- because it must not stop its lane; doctor counts again.
local function parse_in(text)
  local flying, waiting = match(text, '^(%d+) (%d+)$')
  if not flying or #text >= 20 then return 0, 0 end
  return flying + 0, waiting + 0
end

local function read_lanes(names)
  local ins, texts = call('HMGET', IN, unpack(names)), call('HMGET', LANE, unpack(names))
  names[#names + 1], names[#names + 2] = '*', '~epoch'
  local limits = call('HMGET', LIMITS, unpack(names))
  all_paused, loaded.epoch = pauses_all(limits[#names - 1]), limits[#names]
  names[#names], names[#names - 1] = nil, nil
  for i, name in ipairs(names) do
    local inside, text, flying, waiting = ins[i], texts[i], 0, 0
    if inside and inside ~= '0 0' then flying, waiting = parse_in(inside) end
    local s, limit = text and (parsed_lanes[text] or parse_lane(text)) or FRESH, limits_of(name, limits[i])
    local l = {
      name = name, flying = flying, waiting = waiting, was = inside, text = text,
      window = s.window or math.min(FIRST_WINDOW, limit.top), slow = s.slow, state = s, limits = limit,
      own = false, had = flying, ready = nil, emptied = false, place = false,
    }
    lanes[name] = l
    loaded[#loaded + 1] = l
    correct_clock(l)
  end
end

-- load_lanes reads the lanes that the script has not read yet.
local function load_lanes(names)
  local new = {}
  for _, name in ipairs(names) do
    if not lanes[name] then
      lanes[name] = true
      new[#new + 1] = name
    end
  end
  if #new <= 1000 then
    if #new > 0 then read_lanes(new) end
    return
  end
  for i = 1, #new, 1000 do read_lanes({ unpack(new, i, math.min(i + 999, #new)) }) end
end

-- ready_length returns the length of the ready list of a lane.
local function ready_length(l)
  if not l.ready then
    l.ready = l.waiting > 0 and sure('LLEN', READY .. l.name) or 0
  end
  return l.ready
end
