package dispatcher

import (
	"log/slog"
	"time"
)

// clockReading is a time by both clocks of this host. The monotonic one stands still
// while the machine sleeps, and the other one jumps when somebody sets it.
type clockReading struct{ monotonic, wall time.Time }

// readClock is now.
func (e *engine) readClock() clockReading {
	now := time.Now()
	return clockReading{monotonic: now, wall: e.wall(now)}
}

// elapsed is how long ago an earlier moment may be: what the clock says that saw
// more of it.
func (m clockReading) elapsed(earlier clockReading) time.Duration {
	return max(m.monotonic.Sub(earlier.monotonic), m.wall.Sub(earlier.wall))
}

// jump is what the clocks disagree in about the time since an earlier moment:
// the machine slept, or its clock was set.
func (m clockReading) jump(earlier clockReading) time.Duration {
	return (m.wall.Sub(earlier.wall) - m.monotonic.Sub(earlier.monotonic)).Abs()
}

// wallClock is what the host's clock says: a time without its monotonic part.
func wallClock(now time.Time) time.Time { return now.Round(0) }

// seconds is a time as the log tells it, to the millisecond. Its key ends in _s:
// in JSON a slog.Duration would be nanoseconds that do not say so.
func seconds(key string, d time.Duration) slog.Attr {
	return slog.Float64(key, d.Round(time.Millisecond).Seconds())
}
