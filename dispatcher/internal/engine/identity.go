package engine

import (
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// identity is this instance's name in the queue, and when it last beat there. Both
// change together: leases under a name that never beat would not be taken over after a
// crash.
type identity struct {
	base   string                       // the first name of this process; later ones add a number
	count  int                          // of names so far, this one included
	beaten atomic.Pointer[clockReading] // the last beat under this name; nil: none yet
	missed atomic.Pointer[clockReading] // the last beat that was not answered; nil: none
}

func (i *identity) name() string {
	if i.count == 1 {
		return i.base
	}
	return i.base + "-" + strconv.Itoa(i.count)
}

// Name is the name of this instance. It changes where others declared it dead.
func (e *Engine) Name() string { return e.name() }

func (e *Engine) name() string { return e.identity.Load().name() }

// rename gives up the name old, unless another goroutine already did. An instance that
// was declared dead goes on under another name: its leases were taken over.
func (e *Engine) rename(old string) {
	s := e.identity.Load()
	next := &identity{base: s.base, count: s.count + 1}
	if s.name() == old && e.identity.CompareAndSwap(s, next) {
		e.log.Info("declared dead, going on under another name", "instance", old, "name", next.name())
	}
}

// mayLease reports whether this instance may lease more, and under which name. It may
// not while it could be declared dead, while too many outcomes wait to be recorded,
// while it can open no connection, and once the shutdown has begun.
func (e *Engine) mayLease() (name string, ok bool) {
	s := e.identity.Load()
	return s.name(), e.taking.Err() == nil && e.alive(s) && !e.settler.behind() && !e.shortage.on.Load()
}

// missedMost is how long an instance goes on without an answer to its beats. That is
// safe as long as fences are kept, which is a week.
const missedMost = 24 * time.Hour

// alive reports whether this instance can't have been declared dead yet. In a queue of
// several nodes one of them holds the heartbeats. While that node is out of reach no
// instance is declared dead, so the others may be used. Where only this instance does
// not reach it, the partitions that it was fenced from refuse its calls.
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
	return e.instances.Nodes() > 1 && missed != nil && now.elapsed(*missed) < dispatcher.BeatOld && silent < missedMost
}

// clockReading is a time by both clocks of this host. The monotonic clock stands still
// while the machine sleeps, and the wall clock jumps when it is set.
type clockReading struct{ monotonic, wall time.Time }

// readClock reads both clocks.
func (e *Engine) readClock() clockReading {
	now := time.Now()
	return clockReading{monotonic: now, wall: e.wall(now)}
}

// elapsed is the time since an earlier reading: the longer one of the two clocks'
// answers.
func (c clockReading) elapsed(earlier clockReading) time.Duration {
	return max(c.monotonic.Sub(earlier.monotonic), c.wall.Sub(earlier.wall))
}

// jump is by how much the two clocks differ about the time since an earlier reading:
// the machine slept, or its clock was set.
func (c clockReading) jump(earlier clockReading) time.Duration {
	return (c.wall.Sub(earlier.wall) - c.monotonic.Sub(earlier.monotonic)).Abs()
}

// wallClock strips the monotonic part of a time.
func wallClock(now time.Time) time.Time { return now.Round(0) }

// seconds is a duration as an attribute of the log, to the millisecond. Its key ends in
// _s: in JSON a slog.Duration would be a number of nanoseconds without a unit.
func seconds(key string, d time.Duration) slog.Attr {
	return slog.Float64(key, d.Round(time.Millisecond).Seconds())
}
