-- limits: the limits of lanes, which are copies of the limits of endpoints. It is put behind common. It takes no
-- arguments of its own: ARGV[3..] is the script's.
-- needs: common(match, max_window, sub)

-- parse_limits reads a text of :limits, which only Go writes. It returns nil for a malformed text. The version of a cut is a
-- time in ms: deliveries that were accepted until then end, and the lane is not paused.
local function parse_limits(text)
  local v, top, interval, ordered, held, pull = match(text, '^(%d+) (%d+) (%d+) ([01]) ([-pdxg])( ?t?)$')
  if not v then return nil end
  v, top, interval = v + 0, top + 0, interval + 0
  if math.max(v, top, interval) >= SANE then return nil end
  if held == 'g' then return { v = 0, top = max_window, interval = 0, ordered = false, held = '-', cut = v } end
  return { v = v, top = top > 0 and top or max_window, interval = interval, ordered = ordered == '1', held = held, pull = pull == ' t' }
end

-- limits_of returns the limits of a lane with this text, or its defaults if the text is missing or malformed. The lane of a bare
-- URL has no text (none), and consumers take from the lane of a queue (taken). The lane of an endpoint lost its text: the
-- instance that notices writes it again (lost). Lanes share their defaults, which are made when one needs them.
local DEFAULTS = {}
local function limits_of(name, text)
  local limits, first, second = text and parse_limits(text), string.byte(name, 1, 2)
  local queue = first == 113 and second == 95 -- q_
  if limits then
    if queue then limits.pull = true end
    return limits
  end
  local kind = queue and 'taken' or first == 101 and sub(name, 1, 3) == 'ep_' and 'lost' or 'none'
  limits = DEFAULTS[kind]
  if not limits then
    limits = { v = 0, top = max_window, interval = 0, ordered = false, held = kind == 'lost' and '?' or '-', pull = queue, default = true }
    DEFAULTS[kind] = limits
  end
  return limits
end

-- pauses_all reports whether the text of the lane * pauses all lanes.
local function pauses_all(text)
  local l = text and parse_limits(text)
  return l and l.held ~= '-' or false
end
