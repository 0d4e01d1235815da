package dispatcher

import (
	"log/slog"
	"time"
)

// moment is a time by both clocks of this host. The monotonic one stands still
// while the machine sleeps, and the other one jumps when somebody sets it.
type moment struct{ steady, wall time.Time }

// moment is now.
func (e *engine) moment() moment {
	now := time.Now()
	return moment{steady: now, wall: e.wall(now)}
}

// since is how long ago an earlier moment may be: what the clock says that saw
// more of it.
func (m moment) since(earlier moment) time.Duration {
	return max(m.steady.Sub(earlier.steady), m.wall.Sub(earlier.wall))
}

// jump is what the clocks disagree in about the time since an earlier moment:
// the machine slept, or its clock was set.
func (m moment) jump(earlier moment) time.Duration {
	return (m.wall.Sub(earlier.wall) - m.steady.Sub(earlier.steady)).Abs()
}

// wallClock is what the host's clock says: a time without its monotonic part.
func wallClock(now time.Time) time.Time { return now.Round(0) }

// seconds is a time as the log tells it, to the millisecond. Its key ends in _s:
// in JSON a slog.Duration would be nanoseconds that do not say so.
func seconds(key string, d time.Duration) slog.Attr {
	return slog.Float64(key, d.Round(time.Millisecond).Seconds())
}
