package engine

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// When an instance compares its leases with those that the queue says it has. After
// a lost answer it waits for reconcileAfter, since the call may still be carried out.
// After its last lease it compares at looksAfter more ticks of reconcileEvery, since a
// failover may bring back settled leases. Where a part of the queue did not answer it
// compares again after reconcileAgain, which keeps the promised minute.
const (
	reconcileAfter = time.Second
	reconcileAgain = 10 * time.Second
	reconcileEvery = 30 * time.Second
	roundsAfter    = 3
)

// reconciler hands back leases that this instance does not know of. It has a goroutine
// of its own: it waits for calls that may hang, as the heartbeat must not.
type reconciler struct{ engine *Engine }

// Run compares until ctx ends.
func (r *reconciler) Run(ctx context.Context) error {
	e := r.engine
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	wait := newIdleTimer()
	defer wait.Stop()
	waits := false
	least := reconcileAfter
	for failures := 0; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
			return nil
		case <-e.doubt:
			if !waits { // calls that go on failing must not put it off
				wait.Reset(least)
				waits = true
			}
			continue
		case <-wait.C:
			waits = false
		case <-tick.C:
			if e.rounds.Load() == 0 {
				continue
			}
			e.rounds.Add(-1)
		}
		err := r.reconcile(ctx)
		failures = e.goOn(ctx, "leases", failures, err)
		if least = reconcileAfter; err != nil {
			signal(e.doubt)
			if failures == 0 { // some did answer, and need not be asked so soon
				least = reconcileAgain
			}
		}
	}
	return nil
}

// reconcile hands back what the queue says this instance holds, but which it
// does not know of: a claim whose answer was lost, a settle that was forgotten.
func (r *reconciler) reconcile(ctx context.Context) error {
	e := r.engine
	unknown, err := e.leases.diff(ctx, func() ([]dispatcher.Lease, error) {
		call, cancel := outage.Within(ctx)
		defer cancel()
		return e.queue.Leases(call, e.name())
	})
	if len(unknown) > 0 {
		e.log.LogAttrs(ctx, slog.LevelInfo, "unknown leases handed back", slog.Int("deliveries", len(unknown)))
		e.settler.put(unbegun(unknown, e.queue.Now())...)
	}
	return err
}

// unbegun are the outcomes of what was never begun here. It is not known any more
// since when it was ready.
func unbegun(leases []dispatcher.Lease, due time.Time) []dispatcher.Settlement {
	back := make([]dispatcher.Settlement, len(leases))
	for i, l := range leases {
		back[i] = dispatcher.Settlement{ID: l.ID, Verdict: dispatcher.Back, Due: due, Leased: l.At}
	}
	return back
}

// leaseSet is what this instance knows that it has leased. It can be compared
// with what the queue says while leases are taken and settled.
type leaseSet struct {
	mu    sync.Mutex                         // guards what follows
	held  map[dispatcher.DeliveryID]int      // leases of each that are not settled, as far as is known
	since map[dispatcher.DeliveryID]struct{} // came to be held since a comparison began; nil: there is none
	group *callGroup                         // under way
}

// callGroup are those that may lease something and began in one stretch of time.
type callGroup struct {
	n    int
	past bool          // the stretch is over
	over chan struct{} // closed when it is, and the last of them ended
}

func newLeaseSet() *leaseSet {
	return &leaseSet{held: map[dispatcher.DeliveryID]int{}, group: &callGroup{over: make(chan struct{})}}
}

// enter is said before a call that may lease something, end after its answer.
func (h *leaseSet) enter() *callGroup {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.group.n++
	return h.group
}

func (h *leaseSet) leave(c *callGroup, claimed []dispatcher.Claimed) {
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
func (h *leaseSet) hold(id dispatcher.DeliveryID) {
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
func (h *leaseSet) release(id dispatcher.DeliveryID) {
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
func (h *leaseSet) diff(ctx context.Context, read func() ([]dispatcher.Lease, error)) ([]dispatcher.Lease, error) {
	h.mu.Lock()
	before := maps.Clone(h.held)
	h.since = map[dispatcher.DeliveryID]struct{}{}
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
	var unknown []dispatcher.Lease
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
