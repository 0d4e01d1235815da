package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// LeaseCall is a call of the queue that may lease deliveries to this instance. The
// reconciler waits for its end, because its answer says which leases this instance has.
type LeaseCall struct {
	Ctx context.Context // for the call; it has an end of its own
	By  string          // the name of this instance

	cancel context.CancelFunc
	group  *callGroup
}

// beginLease counts a call in. The stop signal does not cancel it: without its answer the
// leases could not be handed back.
func (e *Engine) beginLease(ctx context.Context, by string) LeaseCall {
	c := LeaseCall{By: by, group: e.leases.enter()}
	c.Ctx, c.cancel = outage.Within(context.WithoutCancel(ctx))
	return c
}

// endLease counts a call out, with the deliveries that it leased.
func (e *Engine) endLease(c LeaseCall, claimed []dispatcher.Claimed, err error) {
	c.cancel()
	e.leased(c.group, claimed)
	if err != nil && !errors.Is(err, dispatcher.ErrNothing) {
		e.unsure()
	}
}

// leased records in the lease set the end of a call, and the deliveries that it leased.
func (e *Engine) leased(c *callGroup, claimed []dispatcher.Claimed) {
	if len(claimed) > 0 {
		e.rounds.Store(roundsAfter)
	}
	e.leases.leave(c, claimed)
}

var errMayNot = fmt.Errorf("this instance may lease nothing now: %w", dispatcher.ErrUnavailable)

// BeginLease begins a call of a taker that may lease something. Takers need no permit. The
// error is an ErrUnavailable if this instance may lease nothing now. EndLease has to follow
// each call that was begun.
func (e *Engine) BeginLease(ctx context.Context) (LeaseCall, error) {
	name, ok := e.mayLease()
	if !ok {
		return LeaseCall{}, errMayNot
	}
	return e.beginLease(ctx, name), nil
}

// BeginRegain is BeginLease for leases that come back from a taker to be settled. It works
// during the shutdown too, as long as outcomes are recorded.
func (e *Engine) BeginRegain(ctx context.Context) (LeaseCall, error) {
	s := e.identity.Load()
	if !e.alive(s) || e.settler.ended() {
		return LeaseCall{}, errMayNot
	}
	return e.beginLease(ctx, s.name()), nil
}

// EndLease ends a call with the deliveries that this instance holds by it, and returns the
// error of the call. After an ErrUnavailable some leases may be unknown here; they are handed
// back soon.
func (e *Engine) EndLease(c LeaseCall, held []dispatcher.Claimed, err error) error {
	e.endLease(c, held, err)
	if errors.Is(err, dispatcher.ErrFenced) {
		e.rename(c.By)
		err = fmt.Errorf("%w: %w", err, dispatcher.ErrUnavailable)
	}
	return err
}

// HasSuspect reports whether a suspect is leased, so that no other one may be attempted.
func (e *Engine) HasSuspect() bool { return len(e.leases.suspectLanes()) > 0 }

// Begins reports whether the attempt at a leased delivery may begin. Of a suspect that is noted
// in the queue first, and whether other code that may end this process runs beside it. Where it
// can't be noted, the delivery has to be handed back.
func (e *Engine) Begins(ctx context.Context, c *dispatcher.Claimed, beside bool) bool {
	if !c.Suspect {
		return true
	}
	ctx, cancel := outage.Within(ctx)
	defer cancel()
	ok, err := e.deliveries.Begin(ctx, e.name(), dispatcher.Lease{ID: c.ID, At: c.Leased}, beside)
	e.outages.Report("begin", err)
	if err != nil || !ok {
		return false
	}
	e.log.LogAttrs(ctx, slog.LevelWarn, "attempt of a suspect: the last two instances that held it died",
		slog.String("delivery_id", c.ID.String()), slog.Int("attempt", c.Attempt))
	return true
}

// leaseSet holds the leases that this instance knows of. It can be compared with the
// queue's while leases are taken and settled.
type leaseSet struct {
	mu    sync.Mutex                         // guards the fields below
	held  map[dispatcher.DeliveryID]int      // how many leases of each are not settled
	since map[dispatcher.DeliveryID]struct{} // leased since a comparison began; nil: none is under way
	risky map[dispatcher.DeliveryID]struct{} // suspects among them, mostly none
	group *callGroup                         // of the calls that begin now
	calls int                                // under way, of all groups
	taken int                                // leases there ever were
}

// callGroup is the calls that began between two comparisons and may lease something.
type callGroup struct {
	n    int           // calls under way
	past bool          // no more calls join the group
	over chan struct{} // closed when the last of its calls has ended
}

func newLeaseSet() *leaseSet {
	return &leaseSet{held: map[dispatcher.DeliveryID]int{}, risky: map[dispatcher.DeliveryID]struct{}{}, group: &callGroup{over: make(chan struct{})}}
}

// enter notes a call that may lease something, before it begins.
func (h *leaseSet) enter() *callGroup {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.group.n++
	h.calls++
	return h.group
}

// leave records the end of a call, and the deliveries that it leased.
func (h *leaseSet) leave(c *callGroup, claimed []dispatcher.Claimed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range claimed {
		h.hold(claimed[i].ID)
		if claimed[i].Suspect {
			h.risky[claimed[i].ID] = struct{}{}
		}
	}
	c.n--
	h.calls--
	c.closeIfOver()
}

// hold adds a lease. A delivery may be leased again before the call that handed it back
// was answered. mu is held.
func (h *leaseSet) hold(id dispatcher.DeliveryID) {
	h.held[id]++
	h.taken++
	if h.since != nil {
		h.since[id] = struct{}{}
	}
}

// closeIfOver closes over when the last call of a past group has ended. mu is held.
func (c *callGroup) closeIfOver() {
	if c.past && c.n == 0 {
		close(c.over)
	}
}

// release removes one lease of a delivery.
func (h *leaseSet) release(id dispatcher.DeliveryID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[id]--; h.held[id] <= 0 {
		delete(h.held, id)
		if len(h.risky) > 0 {
			delete(h.risky, id)
		}
	}
}

// suspectLanes are the lanes of which a suspect is leased.
func (h *leaseSet) suspectLanes() (lanes []dispatcher.Lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.risky {
		lanes = append(lanes, id.Lane)
	}
	return lanes
}

// inHand reports whether leases are held, or may just be taken, and how many there ever
// were.
func (h *leaseSet) inHand() (some bool, taken int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held) > 0 || h.calls > 0, h.taken
}

// diff reads the queue's leases, answers those that are not known here, and adds them to
// the set: the caller hands them back. A lease that was held when the comparison began is
// known even if it was settled meanwhile: by the time a hand-back reached the queue, the
// delivery could be leased anew. diff waits for the calls that began before the leases
// were read, because their leases are known only at their end. Only one comparison
// runs at a time.
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
	if err == nil || len(leases) > 0 { // with an error some parts of the queue may have answered
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

// When an instance compares its leases with those that it has in the queue. After a lost
// answer it waits for reconcileAfter, since the call may still be carried out. After its
// last lease it compares at roundsAfter more ticks of reconcileEvery, since a failover may
// bring back settled leases. Where a part of the queue did not answer it compares again
// after reconcileAgain: unknown leases are handed back within a minute, as promised.
const (
	reconcileAfter = time.Second
	reconcileAgain = 10 * time.Second
	reconcileEvery = 30 * time.Second
	roundsAfter    = 3
)

// reconciler hands back leases that this instance does not know of. It has a goroutine
// of its own, since the heartbeat must not wait for a queue that hangs.
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
			if !waits { // calls that go on failing must not postpone it
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
		failures = e.outages.Continue(ctx, "leases", failures, err)
		if least = reconcileAfter; err != nil {
			e.doubt.Set()
			if failures == 0 { // some parts answered, so they need not be asked so soon
				least = reconcileAgain
			}
		}
	}
	return nil
}

// reconcile hands back leases that this instance has in the queue but does not know of: the
// answer to a claim was lost, or a failover lost a settle.
func (r *reconciler) reconcile(ctx context.Context) error {
	e := r.engine
	unknown, err := e.leases.diff(ctx, func() ([]dispatcher.Lease, error) {
		call, cancel := outage.Within(ctx)
		defer cancel()
		return e.deliveries.Leases(call, e.name())
	})
	if len(unknown) > 0 {
		e.log.LogAttrs(ctx, slog.LevelInfo, "unknown leases handed back", slog.Int("deliveries", len(unknown)))
		e.settler.put(unbegun(unknown, e.store.Now())...)
	}
	return err
}

// unbegun makes the outcomes of leases that were never begun here. due takes the place of
// their due times, which are not known here.
func unbegun(leases []dispatcher.Lease, due time.Time) []dispatcher.Settlement {
	back := make([]dispatcher.Settlement, len(leases))
	for i, l := range leases {
		back[i] = dispatcher.Settlement{ID: l.ID, Verdict: dispatcher.Back, Due: due, Leased: l.At}
	}
	return back
}

// Finish records a taker's outcome of a delivery that this instance holds. It returns the
// verdict that counts if the lease is still valid. done is called after it was recorded, or
// can't be any more, and must not block.
func (e *Engine) Finish(c dispatcher.Claimed, h dispatcher.Handled, done func(dispatcher.Settled)) dispatcher.Verdict {
	d, now := e.deliverer, e.store.Now()
	if h.At.IsZero() {
		h.At = now
	}
	if c.Message == nil {
		s := poisoned(c, h.At)
		e.settler.putAndReport(s, true, done)
		d.report(c, s, h.At, true)
		return s.Verdict
	}
	var endpoint *dispatcher.Endpoint
	if c.ID.Lane.IsEndpoint() {
		if dest, err := e.endpoints.Cache.Get(d.cut, string(c.ID.Lane)); err == nil {
			endpoint = dest.Endpoint
		} else {
			endpoint = e.endpoints.Cache.Cached(c.ID.Lane)
		}
	}
	m := c.Message
	o := dispatcher.JudgeHandled(dispatcher.Case{
		Rung: c.Rung, Ladder: d.defaults(m, endpoint).ladder, MaxAttempts: m.MaxAttempts, WaitsOn: c.WaitsOn,
		Now: now, ExpiresAt: m.ExpiresAt, Jitter: d.jitter, Random: rand.Float64(),
	}, h)
	s := dispatcher.Settlement{ID: c.ID, Due: c.Due, First: c.First, Leased: c.Leased, Endpoint: endpoint}
	s.Judged(o)
	s.Attempt.Number, s.Attempt.At, s.Attempt.Resend = c.Attempt, h.At, c.Asked
	e.settler.putAndReport(s, true, done)
	d.report(c, s, h.At, true)
	return s.Verdict
}

// Succeeded records that an attempt at a delivery succeeded whose lease had ended. That
// counts where the delivery has not ended. done is called as by Finish.
func (e *Engine) Succeeded(id dispatcher.DeliveryID, attempt int, done func(dispatcher.Settled)) {
	now := e.store.Now()
	s := dispatcher.Settlement{ID: id, Verdict: dispatcher.Delivered}
	s.Attempt = dispatcher.Attempt{Number: attempt, At: now, Verdict: dispatcher.Delivered}
	e.settler.putAndReport(s, false, func(is dispatcher.Settled) {
		if is.Result == dispatcher.SettledOK || is.Result == dispatcher.SettledDone {
			e.deliverer.report(dispatcher.Claimed{ID: id, Due: now, Attempt: attempt}, s, now, true)
		}
		done(is)
	})
}

// Settle records the outcomes of leases without attempts, as Fit returns them.
func (e *Engine) Settle(outcomes ...dispatcher.Settlement) { e.settler.put(outcomes...) }

// HandBack gives up leases without attempts: their deliveries go back to the heads
// of their lanes, in their order.
func (e *Engine) HandBack(leased ...dispatcher.Claimed) { e.settler.put(backs(leased, 0)...) }

// HandBackLater is HandBack of deliveries that can't be begun now. Their lanes pause for a
// moment.
func (e *Engine) HandBackLater(leased ...dispatcher.Claimed) {
	e.settler.put(backs(leased, backPause)...)
}
