-- slots: how many deliveries of a lane may be in flight, by its window, its rate, its breaker and its weight. It is put behind
-- lane_state. It takes no arguments of its own: ARGV[3..] is the script's.
-- needs: common(floor, micros), lane_state(writable)

-- slots returns how many deliveries of a lane may be in flight. It returns one, the probe, while the breaker of the lane is
-- open or the lane waits for our own network. The window does not limit a lane with consumers, because they set their own pace.
local function slots(l)
  if l.limits.ordered then return 1 end
  if l.limits.pull then return l.limits.top end
  if l.state.opened > 0 or l.state.egress > 0 then return 1 end
  return math.min(l.window, l.limits.top)
end

-- counted_from returns the time in us from which the tokens of a lane count.
local function counted_from(tat)
  return tat < micros - IDLE and micros or math.max(tat, micros - BURST)
end

-- tokens_of returns how many attempts the rate limit of a lane allows now.
local function tokens_of(l)
  local interval, tat = l.limits.interval, l.state.tat
  if interval == 0 then return math.huge end
  if tat > micros then return 0 end
  return floor((micros - counted_from(tat)) / interval) + 1
end

-- take_tokens takes n tokens of the rate limit, return_token returns one.
local function take_tokens(l, n)
  local s = writable(l)
  s.tat = counted_from(s.tat) + n * l.limits.interval
end
local function return_token(l)
  if l.limits.interval == 0 then return end
  local s = writable(l)
  s.tat = math.max(0, s.tat - l.limits.interval)
end

-- allowed_from returns the ms from which the state of a lane allows an attempt.
local function allowed_from(l)
  local s = l.state
  if l.limits.interval == 0 then return s.till end
  return math.max(s.till, math.ceil(s.tat / 1000))
end

-- lane_ends reports whether all deliveries of a lane end because its endpoint is disabled or deleted.
local function lane_ends(l) return l.limits.held == 'd' or l.limits.held == 'x' end
