package partitions

import (
	"sync/atomic"
	"time"
)

// clock estimates the store's time from the last answer and this process'
// monotonic clock, so that a host whose clock is wrong, or jumps, is right all
// the same.
type clock struct {
	anchor atomic.Pointer[anchor]
}

type anchor struct {
	store, local time.Time
}

// anchorFor is how long an anchor serves: quartz drifts by less than a
// millisecond in that time.
const anchorFor = 5 * time.Second

func (c *clock) set(store, local time.Time) {
	if a := c.anchor.Load(); a != nil && local.Sub(a.local) < anchorFor && store.Sub(a.store) <= local.Sub(a.local) {
		return // an answer that took longer on its way knows less
	}
	c.anchor.Store(&anchor{store: store, local: local})
}

// now is the store's time, or this host's while nothing was heard.
func (c *clock) now() time.Time {
	if a := c.anchor.Load(); a != nil {
		return a.store.Add(time.Since(a.local))
	}
	return time.Now().UTC()
}
