package dispatcher

import (
	"context"
	"maps"
	"sync"
)

// leaseSet is what this instance knows that it has leased. It can be compared
// with what the queue says while leases are taken and settled.
type leaseSet struct {
	mu    sync.Mutex              // guards what follows
	held  map[DeliveryID]int      // leases of each that are not settled, as far as is known
	since map[DeliveryID]struct{} // came to be held since a comparison began; nil: there is none
	group *callGroup              // under way
}

// callGroup are those that may lease something and began in one stretch of time.
type callGroup struct {
	n    int
	past bool          // the stretch is over
	over chan struct{} // closed when it is, and the last of them ended
}

func newLeaseSet() *leaseSet {
	return &leaseSet{held: map[DeliveryID]int{}, group: &callGroup{over: make(chan struct{})}}
}

// enter is said before a call that may lease something, end after its answer.
func (h *leaseSet) enter() *callGroup {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.group.n++
	return h.group
}

func (h *leaseSet) leave(c *callGroup, claimed []Claimed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range claimed {
		h.hold(claimed[i].ID)
	}
	c.n--
	c.closeIfOver()
}

// hold remembers a lease. The same delivery may be leased again before the answer
// is there that it was handed back. mu is held.
func (h *leaseSet) hold(id DeliveryID) {
	h.held[id]++
	if h.since != nil {
		h.since[id] = struct{}{}
	}
}

// closeIfOver closes over when the last call of before has ended. mu is held.
func (c *callGroup) closeIfOver() {
	if c.past && c.n == 0 {
		close(c.over)
	}
}

// release forgets one lease of a delivery.
func (h *leaseSet) release(id DeliveryID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[id]--; h.held[id] <= 0 {
		delete(h.held, id)
	}
}

func (h *leaseSet) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// diff calls read, answers which of these leases are not known here, and holds
// them from then on: the caller hands them back. What was held before
// is known even if it was settled meanwhile: by the time a hand-back would reach
// the queue it may be leased anew. What a call leases that began before the
// leases were read is known when that call has ended. One comparison at a time.
func (h *leaseSet) diff(ctx context.Context, read func() ([]Lease, error)) ([]Lease, error) {
	h.mu.Lock()
	before := maps.Clone(h.held)
	h.since = map[DeliveryID]struct{}{}
	h.mu.Unlock()

	leases, err := read()

	h.mu.Lock()
	under := h.group
	h.group = &callGroup{over: make(chan struct{})}
	under.past = true
	under.closeIfOver()
	h.mu.Unlock()
	if err == nil || len(leases) > 0 { // of some partitions also beside an error
		select {
		case <-under.over:
		case <-ctx.Done():
			leases, err = nil, ctx.Err()
		}
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	since := h.since
	h.since = nil
	var unknown []Lease
	for _, l := range leases {
		_, old := before[l.ID]
		_, late := since[l.ID]
		if !old && !late {
			h.hold(l.ID)
			unknown = append(unknown, l)
		}
	}
	return unknown, err
}
