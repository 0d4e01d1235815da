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

// LeaseCall is a call of the queue that may lease deliveries to this instance. The reconciler
// waits for its end, because its response lists leases of this instance.
type LeaseCall struct {
	Ctx context.Context // for the call; it has its own timeout
	By  string          // the name of this instance

	cancel context.CancelFunc
	group  *callGroup
}

// beginLease registers a call. The stop signal does not cancel the call, because without its
// response the leases could not be handed back.
func (e *Engine) beginLease(ctx context.Context, by string) LeaseCall {
	c := LeaseCall{By: by, group: e.leases.enter()}
	c.Ctx, c.cancel = outage.Within(context.WithoutCancel(ctx))
	return c
}

// endLease registers the end of a call, and the deliveries that it leased.
func (e *Engine) endLease(c LeaseCall, claimed []dispatcher.Claimed, err error) {
	c.cancel()
	e.leased(c.group, claimed)
	if err != nil && !errors.Is(err, dispatcher.ErrNothing) {
		e.unsure()
	}
}

// leased records the end of a call and its leased deliveries in the lease set.
func (e *Engine) leased(c *callGroup, claimed []dispatcher.Claimed) {
	if len(claimed) > 0 {
		e.rounds.Store(roundsAfter)
	}
	e.leases.leave(c, claimed)
}

// BeginLease begins a call of a taker that may lease something. Takers need no permit. It
// returns dispatcher.ErrMayNotLease if this instance may lease nothing now. The caller has to call
// EndLease after each call that was begun.
func (e *Engine) BeginLease(ctx context.Context) (LeaseCall, error) {
	name, ok := e.mayLease()
	if !ok {
		return LeaseCall{}, dispatcher.ErrMayNotLease
	}
	return e.beginLease(ctx, name), nil
}

// BeginRegain is like BeginLease, for leases that a taker returns to be settled. It works
// during the shutdown too, as long as outcomes are recorded.
func (e *Engine) BeginRegain(ctx context.Context) (LeaseCall, error) {
	s := e.identity.Load()
	if !e.alive(s) || e.settler.ended() {
		return LeaseCall{}, dispatcher.ErrMayNotLease
	}
	return e.beginLease(ctx, s.name()), nil
}

// EndLease ends a call with the deliveries that it leased to this instance, and returns the
// error of the call. After an ErrUnavailable this instance may have unknown leases. They are
// handed back soon.
func (e *Engine) EndLease(c LeaseCall, claimed []dispatcher.Claimed, err error) error {
	e.endLease(c, claimed, err)
	if errors.Is(err, dispatcher.ErrFenced) {
		e.rename(c.By)
		err = fmt.Errorf("%w: %w", err, dispatcher.ErrUnavailable)
	}
	return err
}

// HasSuspect reports whether a suspect is leased. Then no other suspect may be attempted.
func (e *Engine) HasSuspect() bool { return len(e.leases.suspectLanes()) > 0 }

// Begins reports whether the attempt at a leased delivery may begin. For a suspect it first
// records the attempt in the queue. beside says that other code that may crash this process
// runs at the same time. If recording fails, the delivery has to be handed back.
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

// leaseSet is the set of leases that this instance knows. It can be compared with the queue's
// leases while leases are taken and settled.
type leaseSet struct {
	mu        sync.Mutex                         // guards the fields below
	unsettled map[dispatcher.DeliveryID]int      // number of unsettled leases by delivery
	since     map[dispatcher.DeliveryID]struct{} // leased after the running comparison began; nil: none is running
	risky     map[dispatcher.DeliveryID]struct{} // leased suspects, mostly none
	group     *callGroup                         // group of the calls that begin now
	calls     int                                // running calls of all groups
	taken     int                                // number of all leases until now
}

// callGroup has the calls that began between two comparisons and may lease something.
type callGroup struct {
	n    int           // running calls
	past bool          // no more calls join the group
	over chan struct{} // closed when the last of its calls has ended
}

func newLeaseSet() *leaseSet {
	return &leaseSet{unsettled: map[dispatcher.DeliveryID]int{}, risky: map[dispatcher.DeliveryID]struct{}{}, group: &callGroup{over: make(chan struct{})}}
}

// enter registers a call that may lease something, before it begins.
func (h *leaseSet) enter() *callGroup {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.group.n++
	h.calls++
	return h.group
}

// leave registers the end of a call, and the deliveries that it leased.
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

// hold adds a lease. A delivery may be leased again before the response of the call that
// handed it back. mu is locked.
func (h *leaseSet) hold(id dispatcher.DeliveryID) {
	h.unsettled[id]++
	h.taken++
	if h.since != nil {
		h.since[id] = struct{}{}
	}
}

// closeIfOver closes over if the last call of a past group has ended. mu is locked.
func (c *callGroup) closeIfOver() {
	if c.past && c.n == 0 {
		close(c.over)
	}
}

// release removes one lease of a delivery.
func (h *leaseSet) release(id dispatcher.DeliveryID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unsettled[id]--; h.unsettled[id] <= 0 {
		delete(h.unsettled, id)
		if len(h.risky) > 0 {
			delete(h.risky, id)
		}
	}
}

// suspectLanes returns the lanes with a leased suspect.
func (h *leaseSet) suspectLanes() (lanes []dispatcher.Lane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.risky {
		lanes = append(lanes, id.Lane)
	}
	return lanes
}

// inHand reports whether this instance has leases or a running call that may lease, and the
// number of all leases until now.
func (h *leaseSet) inHand() (some bool, taken int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.unsettled) > 0 || h.calls > 0, h.taken
}

// diff reads the queue's leases and returns those that this instance does not know. It adds
// them to the set, and the caller hands them back.
//
// A lease known at the start of the comparison counts as known, even if it was settled in the
// meantime. Otherwise the delivery could be leased again before its hand-back reaches the
// queue.
//
// diff waits for the calls that began before the leases were read, because their leases are
// known only at their end. Only one comparison runs at a time.
func (h *leaseSet) diff(ctx context.Context, read func() ([]dispatcher.Lease, error)) ([]dispatcher.Lease, error) {
	h.mu.Lock()
	before := maps.Clone(h.unsettled)
	h.since = map[dispatcher.DeliveryID]struct{}{}
	h.mu.Unlock()

	leases, err := read()

	h.mu.Lock()
	under := h.group
	h.group = &callGroup{over: make(chan struct{})}
	under.past = true
	under.closeIfOver()
	h.mu.Unlock()
	if err == nil || len(leases) > 0 { // with an error some parts of the queue may have responded
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

// These are the times at which an instance compares its leases with the queue's.
//   - After a lost response it waits for reconcileAfter, because the queue may still execute
//     the call.
//   - After its last lease it compares at roundsAfter more ticks of reconcileEvery, because a
//     failover may bring back settled leases.
//   - If a part of the queue did not respond, it compares again after reconcileAgain, because
//     unknown leases must be handed back within a minute.
const (
	reconcileAfter = time.Second
	reconcileAgain = 10 * time.Second
	reconcileEvery = 30 * time.Second
	roundsAfter    = 3
)

// reconciler hands back leases that this instance does not know. It has its own goroutine,
// because the heartbeat must not wait for a queue that hangs.
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
			if !waits { // further failures must not postpone it
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
			if failures == 0 { // some parts responded, so the next query is less urgent
				least = reconcileAgain
			}
		}
	}
	return nil
}

// reconcile hands back leases that the queue has for this instance but this instance does not
// know. Either the response to a claim was lost, or a failover lost a settle.
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

// unbegun returns the outcomes of leases that never began here. It uses due as their due time,
// because this instance does not know their due times.
func unbegun(leases []dispatcher.Lease, due time.Time) []dispatcher.Settlement {
	back := make([]dispatcher.Settlement, len(leases))
	for i, l := range leases {
		back[i] = dispatcher.Settlement{ID: l.ID, Verdict: dispatcher.Back, Due: due, Leased: l.At}
	}
	return back
}

// Finish records a taker's outcome of a delivery that is leased to this instance. It returns
// the verdict that counts if the lease is still valid. done is called when the outcome was
// recorded, or can't be recorded any more. It must not block.
func (e *Engine) Finish(c dispatcher.Claimed, h dispatcher.Handled, done func(dispatcher.Settled)) dispatcher.Verdict {
	e.progress.record.begin()
	defer e.progress.record.end()
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
	if s.Verdict == dispatcher.Snoozed { // no attempt is counted, so nothing of it is recorded or observed
		s.Attempt = dispatcher.Attempt{}
		e.settler.putAndReport(s, true, done)
		return s.Verdict
	}
	s.Attempt.Number, s.Attempt.At, s.Attempt.Resend = c.Attempt, h.At, c.Asked
	e.settler.putAndReport(s, true, done)
	d.report(c, s, h.At, true)
	return s.Verdict
}

// Succeeded records that an attempt succeeded after its lease had ended. The success counts if
// the delivery has not ended. done is called as by Finish.
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

// HandBack gives up leases without attempts. Their deliveries return to the heads of their
// lanes, in their order.
func (e *Engine) HandBack(leased ...dispatcher.Claimed) { e.settler.put(backs(leased, 0)...) }

// HandBackLater is like HandBack, for deliveries that can't begin now. Their lanes pause for
// backPause.
func (e *Engine) HandBackLater(leased ...dispatcher.Claimed) {
	e.settler.put(backs(leased, backPause)...)
}
