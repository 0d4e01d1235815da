package engine

import (
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
)

const (
	// sealedMost bounds the wait of a message whose headers no key opens, so that it is delivered
	// soon after its key came back, however many wait.
	sealedMost = 10 * time.Minute
	// sealedGap limits what they all cost: one instance leases at most 100 of them a second, until
	// so many wait that sealedMost makes it more.
	sealedGap = 10 * time.Millisecond
)

// sealedWaits chooses how long a message waits whose headers this instance can't open. Only that
// message waits, because the other messages of its lane may be fine.
type sealedWaits struct {
	mu   sync.Mutex // guards last
	last time.Time  // until when the latest of them waits
}

// next returns the wait of one more message.
func (w *sealedWaits) next(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	least := now.Add(endpoints.StalledFor)
	if w.last = w.last.Add(sealedGap); w.last.Before(least) {
		w.last = least
	}
	if most := now.Add(sealedMost); w.last.After(most) {
		w.last = most
	}
	return w.last.Sub(now)
}

// waitAlone returns the outcome of a delivery whose message this instance can't open: it waits
// without an attempt, and its lane continues.
func (e *Engine) waitAlone(c *dispatcher.Claimed) dispatcher.Settlement {
	return dispatcher.Settlement{
		ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, First: c.First, Leased: c.Leased,
		Wait: e.sealed.next(e.store.Now()), Stalled: dispatcher.WhySealed,
	}
}
