package conn

import (
	"sync/atomic"
	"time"
)

// clock estimates the store's time from replies and from the monotonic clock of this process. So a
// wrong or jumping clock of the host has no effect. If several nodes have different clocks, it
// follows the clock that is ahead. Otherwise an attempt might seem to begin before it was due.
type clock struct {
	anchor atomic.Pointer[anchor]
}

// doubtAfter limits how long an estimate may be ahead of every reply. After that the estimate
// counts as wrong, because a node's clock went back or this host's clock is fast.
const doubtAfter = 5 * time.Second

// anchor is one moment in the store's time and in this host's time.
type anchor struct {
	store, local time.Time
	fits         atomic.Int64 // the time from local to the last reply that fitted, in ns
}

func (a *anchor) at(local time.Time) time.Time { return a.store.Add(local.Sub(a.local)) }

// set updates the estimate from a reply. The store's time was the value of store at some moment
// between sent and local. An estimate within that range stays, because a slow reply is less exact.
// A new estimate is the store's time itself, without half of the round trip. If the estimate is
// behind, the next reply shows it at once. If it were ahead, no reply would show it. If sent is
// zero, the call only reports that the store's time has been reached.
func (c *clock) set(store, sent, local time.Time) {
	if a := c.anchor.Load(); a != nil {
		since := local.Sub(a.local)
		known := a.store.Add(since)
		switch fits := !sent.IsZero() && !known.After(store.Add(local.Sub(sent))); {
		case known.Before(store):
		case fits:
			a.fits.Store(int64(since))
			return
		case sent.IsZero() || since-time.Duration(a.fits.Load()) < doubtAfter:
			return
		}
	}
	c.anchor.Store(&anchor{store: store, local: local})
}

// now returns the store's time, or this host's time if there was no reply yet.
func (c *clock) now() time.Time {
	if a := c.anchor.Load(); a != nil {
		return a.at(time.Now())
	}
	return time.Now().UTC()
}

// Bounds of the detection of jumps. A difference of clocks below jumpLeast delays nothing that
// matters, and is usual between two nodes. Of the jumps in one direction, one in each jumpLogged is
// logged, because a proxy that alternates between two nodes would fill the log.
const (
	jumpLeast  = time.Minute
	jumpLogged = time.Minute
)

// reading is one reply of a partition. Its clock showed store at some moment between sent and local,
// which are by this host's clock.
type reading struct{ store, sent, local time.Time }

// jump returns how far the partition's clock moved against this host's monotonic clock since an older
// reading, at least. It returns zero if that is less than jumpLeast. A slow reply, or a process that
// was stopped, causes no jump, because it makes the time between sent and local longer.
func (r reading) jump(since reading) time.Duration {
	passed := r.store.Sub(since.store)
	if ahead := passed - r.local.Sub(since.sent); ahead >= jumpLeast {
		return ahead
	}
	if behind := passed - r.sent.Sub(since.local); behind <= -jumpLeast {
		return behind
	}
	return 0
}

// jumps are the jumps of the store's clock. The mu of the Set guards them.
type jumps struct {
	count  int64
	by     time.Duration // the last one
	at     time.Time     // when it was noticed
	logged [2]time.Time  // when a jump ahead, and one back, was last logged
}

// notice counts a jump that a partition's reading shows, and reports whether to log it. Each
// partition of a node shows the same jump, perhaps much later. It is the same one if the partition
// was last read before the jump was noticed.
func (j *jumps) notice(by time.Duration, since, now reading) bool {
	if (by-j.by).Abs() < jumpLeast && since.local.Before(j.at) {
		return false
	}
	j.count++
	j.by, j.at = by, now.local
	way := &j.logged[0]
	if by < 0 {
		way = &j.logged[1]
	}
	if !way.IsZero() && now.local.Sub(*way) < jumpLogged {
		return false
	}
	*way = now.local
	return true
}

// read compares a reading of a partition with the one before. If the clock jumped and that is to
// be logged, it returns by how much. The caller must lock mu.
func (s *PartitionSet) read(p *partition, now reading) (by, host time.Duration) {
	last := p.last
	if now.sent.IsZero() || now.sent.Before(last.sent) { // it was told by another instance, or overtaken
		return 0, 0
	}
	p.last = now
	if last.sent.IsZero() {
		return 0, 0
	}
	if by = now.jump(last); by == 0 || !s.jumps.notice(by, last, now) {
		return 0, 0
	}
	return by, s.wall(now.local).Sub(s.wall(last.local)) - now.local.Sub(last.local)
}

// Jumps returns the number of jumps of the store's clock.
func (s *PartitionSet) Jumps() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jumps.count
}

// wallOf returns what the host's clock showed, without the monotonic reading.
func wallOf(t time.Time) time.Time { return t.Round(0) }
