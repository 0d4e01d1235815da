package partitions

import (
	"sync/atomic"
	"time"
)

// clock estimates the store's time from answers and this process' monotonic clock, so
// that a host whose clock is wrong, or jumps, is right all the same. Of the clocks of
// several nodes it follows the one that is ahead: nothing then seems to begin before it
// was due.
type clock struct {
	anchor atomic.Pointer[anchor]
}

// doubtAfter is how long no answer fits an estimate that is ahead of them all before it
// counts as wrong: a clock went back, or this host's is fast.
const doubtAfter = 5 * time.Second

// anchor is a time by the store's clock, and the same moment by this host's.
type anchor struct {
	store, local time.Time
	fits         atomic.Int64 // how long after local an answer last fitted, in ns
}

func (a *anchor) at(local time.Time) time.Time { return a.store.Add(local.Sub(a.local)) }

// set takes in an answer: the store's time was somewhere between sent and local. An
// estimate that lies in between stays, since an answer that was long on its way knows
// less. A new one is the store's time, and not half of the way further: the next answer
// shows at once that it is behind, and none that it is ahead. A zero sent says only that
// the store's time has come.
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

// now is the store's time, or this host's while nothing was heard.
func (c *clock) now() time.Time {
	if a := c.anchor.Load(); a != nil {
		return a.at(time.Now())
	}
	return time.Now().UTC()
}
