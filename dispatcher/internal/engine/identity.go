package engine

import (
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// identity is what this instance is called in the queue, and how alive it is there.
// Both change together: what is leased under a name that never beat would
// not be taken over after a crash.
type identity struct {
	base   string                       // of all names of this process
	count  int                          // of them, this one included
	beaten atomic.Pointer[clockReading] // the last beat under this name; nil: none yet
	missed atomic.Pointer[clockReading] // the last one that the queue did not answer
}

func (s *identity) name() string {
	if s.count == 1 {
		return s.base
	}
	return s.base + "-" + strconv.Itoa(s.count)
}

func (e *Engine) name() string { return e.identity.Load().name() }

// rename gives up the name old, unless another stage did so already. An instance
// that was declared dead goes on under another name: its leases were taken over.
func (e *Engine) rename(old string) {
	s := e.identity.Load()
	next := &identity{base: s.base, count: s.count + 1}
	if s.name() == old && e.identity.CompareAndSwap(s, next) {
		e.log.Info("declared dead, going on under another name", "instance", old, "name", next.name())
	}
}

// mayLease reports whether this instance may lease more, and under which name. It
// must be sure to be alive, and have few outcomes waiting. Once it is to stop it
// leases nothing, nor while it can open no connection.
func (e *Engine) mayLease() (name string, ok bool) {
	s := e.identity.Load()
	return s.name(), e.taking.Err() == nil && e.alive(s) && !e.settler.behind() && !e.shortage.on.Load()
}

// missedMost is how long an instance goes on without an answer to its beats. That is
// safe as long as fences are kept, which is a week.
const missedMost = 24 * time.Hour

// alive reports whether this instance may lease, since it can't have been declared
// dead yet. Of a queue on several nodes one knows which instances are alive. Where
// that one can't be reached the others go on: no instance is declared dead then.
// Where only this instance does not reach it, the partitions that it was fenced from
// refuse it.
func (e *Engine) alive(s *identity) bool {
	beaten, now := s.beaten.Load(), e.readClock()
	if beaten == nil {
		return false
	}
	silent := now.elapsed(*beaten)
	if silent < dispatcher.BeatOld {
		return true
	}
	missed := s.missed.Load()
	return e.queue.Nodes() > 1 && missed != nil && now.elapsed(*missed) < dispatcher.BeatOld && silent < missedMost
}

// clockReading is a time by both clocks of this host. The monotonic one stands still
// while the machine sleeps, and the other one jumps when somebody sets it.
type clockReading struct{ monotonic, wall time.Time }

// readClock is now.
func (e *Engine) readClock() clockReading {
	now := time.Now()
	return clockReading{monotonic: now, wall: e.wall(now)}
}

// elapsed is how long ago an earlier reading may be: the longer one of the two
// clocks' answers.
func (m clockReading) elapsed(earlier clockReading) time.Duration {
	return max(m.monotonic.Sub(earlier.monotonic), m.wall.Sub(earlier.wall))
}

// jump is how much the clocks disagree about the time since an earlier reading: the
// machine slept, or its clock was set.
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
