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
