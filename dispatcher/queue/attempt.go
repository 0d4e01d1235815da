package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/ladder"
)

// attempt is one call of a handler.
type attempt struct {
	handlers *handlers
	of       *handledLane
	claimed  dispatcher.Claimed
	delivery Delivery
	began    time.Time
	timeout  time.Duration
	shared   bool       // other handlers may run at the same time
	span     trace.Span // nil: not traced

	recording atomic.Bool                // it runs alone, and its outcome is not recorded yet
	settled   atomic.Bool                // the outcome was given to the engine, which happens once
	last      atomic.Pointer[time.Timer] // ends an overdue attempt; nil: it is not overdue
}

// lateAfter is how long after its deadline a handler counts as overdue. A handler that
// obeys its context returns before.
const lateAfter = 100 * time.Millisecond

// work is a worker: it handles tasks until there are no more.
func (h *handlers) work() {
	whole := false
	defer func() {
		if !whole { // a handler ended its goroutine, so another worker replaces it
			h.all.Go(h.work)
		}
	}()
	for t := range h.tasks {
		h.handle(t)
	}
	whole = true
}

// handle makes one attempt, unless it has to stop.
func (h *handlers) handle(t task) {
	a := &attempt{handlers: h, of: t.of, claimed: t.claimed}
	entered := h.enter(a)
	defer h.returned(a)
	switch {
	case !entered:
		h.engine.HandBack(t.claimed)
	case !a.fits():
	case !h.engine.Begins(h.cut, &a.claimed, a.shared):
		h.engine.HandBackLater(a.claimed)
	default:
		a.run()
	}
}

// enter waits for the turn of an attempt, which usually comes at once. It returns false
// when h stops.
//
// A suspect is a delivery that was handled beside others when its program died. It runs
// alone now: if the program dies again, no other delivery is to blame. So it waits for
// the running handlers, but not for one that never returns. Then it runs beside that one.
func (h *handlers) enter(a *attempt) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.shared = h.workers > 1
	if a.claimed.Alone && a.shared {
		h.waitAlone(a)
	} else {
		for h.alone != nil && !h.stopping {
			h.turn.Wait()
		}
	}
	if h.stopping {
		return false
	}
	h.under[a] = struct{}{}
	return true
}

// waitAlone waits until no handler runs, but no longer than a handler may take. The
// caller holds mu.
func (h *handlers) waitAlone(a *attempt) {
	over := false
	timer := time.AfterFunc(2*h.engine.Timeout(a.claimed)+lateAfter, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		over = true
		h.turn.Broadcast()
	})
	defer timer.Stop()
	for h.alone != nil && !h.stopping {
		h.turn.Wait()
	}
	for h.alone = a; len(h.under) > 0 && !over && !h.stopping; {
		h.turn.Wait()
	}
	if a.shared = len(h.under) > 0; a.shared {
		h.alone = nil
		h.turn.Broadcast()
	}
}

// returned frees the worker of an attempt.
func (h *handlers) returned(a *attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.under, a)
	if h.alone == a && !a.recording.Load() {
		h.alone = nil
	}
	h.turn.Broadcast()
	a.of.running--
	h.free++
	if h.need > 0 && h.free >= h.need {
		h.wake.Set()
	}
	if h.stopping && len(h.under) == 0 {
		h.closeIdle()
	}
}

// closeIdle reports that no handler runs. The caller holds mu.
func (h *handlers) closeIdle() {
	select {
	case <-h.idle:
	default:
		close(h.idle)
	}
}

// cutWithin is how long handlers have to return after their contexts were cancelled.
const cutWithin = 2 * time.Second

// stop waits for the running handlers, see Queue.Run.
func (h *handlers) stop() {
	h.mu.Lock()
	h.stopping = true
	h.turn.Broadcast()
	close(h.tasks)
	if len(h.under) == 0 {
		h.closeIdle()
	}
	h.mu.Unlock()
	if !h.waitIdle(h.grace) {
		h.cutOff()
		h.waitIdle(cutWithin)
	}
	h.mu.Lock()
	left := len(h.under)
	for a := range h.under {
		if a.settled.CompareAndSwap(false, true) {
			h.engine.HandBack(a.claimed)
		}
	}
	h.mu.Unlock()
	if left == 0 {
		h.all.Wait()
		return
	}
	h.log.Error("handlers ignore their contexts and still run after Run has returned", "handlers", left)
}

// waitIdle waits until no handler runs, and reports whether that is so within most.
func (h *handlers) waitIdle(most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-h.idle:
		return true
	case <-timer.C:
		return false
	}
}

// fits reports whether the delivery can be handled, and loads a large body. It settles a
// delivery that can't be handled.
func (a *attempt) fits() bool {
	m := a.claimed.Message
	if m != nil && m.Apart == nil && m.Sealed == "" {
		return true
	}
	fit, unfit := a.handlers.engine.Fit(a.handlers.cut, []dispatcher.Claimed{a.claimed}, 0)
	a.handlers.engine.Settle(unfit...)
	if len(fit) > 0 {
		a.claimed = fit[0]
	}
	return len(fit) > 0
}

// run calls the handler and records the outcome.
func (a *attempt) run() {
	h := a.handlers
	a.began, a.timeout = h.engine.Now(), h.engine.Timeout(a.claimed)
	a.delivery = newDelivery(a.claimed.ID, a.of.queue, a.claimed.Message)
	a.delivery.Attempt, a.delivery.MaxAttempts = a.claimed.Attempt, h.engine.MostAttempts(a.claimed)
	a.delivery.Snoozes, a.delivery.LastError = a.claimed.Snoozes, a.claimed.LastError
	ctx, cancel := context.WithTimeout(h.cut, a.timeout)
	defer cancel()
	ctx = a.trace(ctx)
	late := time.AfterFunc(a.timeout+lateAfter, a.overdue)
	result := noReturn
	defer func() { // runs even if the handler ended its goroutine
		late.Stop()
		if t := a.last.Load(); t != nil {
			t.Stop()
		}
		a.finish(ctx, result)
	}()
	result = a.call(ctx)
}

// newDelivery returns the delivery of a message, without the fields of an attempt.
func newDelivery(id dispatcher.DeliveryID, queue string, m *dispatcher.Message) Delivery {
	d := Delivery{
		ID: id.String(), MessageID: m.ID, Queue: queue, Topic: m.Topic, Tenant: m.Tenant, Subject: m.Subject,
		Body: m.Body, ContentType: m.ContentType, CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt,
	}
	if len(m.Headers) > 0 {
		d.Headers = make(map[string]string, len(m.Headers))
		for _, header := range m.Headers {
			d.Headers[header.Name] = header.Value
		}
	}
	return d
}

// handlerContext is the context of a handler. It contains the delivery.
type handlerContext struct {
	context.Context
	delivery *Delivery
}

// Value returns the delivery for deliveryKey.
func (c handlerContext) Value(key any) any {
	if key == (deliveryKey{}) {
		return c.delivery
	}
	return c.Context.Value(key)
}

// finish records the outcome after the handler has returned. A nil error means success,
// however late it is.
func (a *attempt) finish(ctx context.Context, r handlerResult) {
	h := a.handlers
	if !a.settled.CompareAndSwap(false, true) {
		h.log.Warn("a handler returned after its attempt was given up", "delivery_id", a.delivery.ID, "attempt", a.delivery.Attempt,
			"took_s", h.engine.Now().Sub(a.began).Round(time.Millisecond).Seconds(), "succeeded", !r.failed)
		if !r.failed { // this counts if the delivery has not ended
			h.engine.Succeeded(a.claimed.ID, a.claimed.Attempt, h.recorded)
		}
		return
	}
	out := dispatcher.Handled{Verdict: dispatcher.Retry, Class: dispatcher.ClassHandler, At: a.began, After: r.after, Error: r.text}
	expired := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case !r.failed:
		out.Verdict, out.Class = dispatcher.Delivered, dispatcher.ClassNone
	case r.skip:
		out.Verdict = dispatcher.Dead
	case r.snooze:
		out.Verdict = dispatcher.Snoozed
	case r.raised, r.after != nil, expired:
	case h.cut.Err() != nil:
		h.engine.HandBack(a.claimed) // it failed because the program stops
		a.endSpan(dispatcher.Handled{Verdict: dispatcher.Back})
		return
	}
	if r.failed && !r.snooze && expired {
		out.Class = dispatcher.ClassTimeout
	}
	a.record(out)
}

// record gives the outcome to the engine. If the attempt runs alone, no other one begins
// until the outcome is recorded, because that attempt would be to blame if the program
// died.
func (a *attempt) record(out dispatcher.Handled) {
	h := a.handlers
	a.endSpan(out)
	if a.shared {
		h.engine.Finish(a.claimed, out, h.recorded)
		return
	}
	a.recording.Store(true)
	h.engine.Finish(a.claimed, out, func(is dispatcher.Settled) {
		h.recorded(is)
		h.mu.Lock()
		defer h.mu.Unlock()
		a.recording.Store(false)
		if h.alone == a {
			h.alone = nil
			h.turn.Broadcast()
			h.wake.Set()
		}
	})
}

// recorded counts outcomes that could not be recorded.
func (h *handlers) recorded(is dispatcher.Settled) {
	if is.Err != nil {
		h.unrecorded.Add(1)
	}
}

// overdue logs a handler that did not return by its deadline. Its delivery stays leased
// for the same time again, so its success still counts and no other attempt runs beside
// it.
func (a *attempt) overdue() {
	if a.settled.Load() {
		return
	}
	a.last.Store(time.AfterFunc(a.timeout, a.giveUp))
	a.handlers.log.Warn("a handler did not return by its deadline; its worker is not free until it does", "delivery_id", a.delivery.ID,
		"attempt", a.delivery.Attempt, "timeout_s", a.timeout.Seconds())
}

// giveUp fails an attempt whose handler took twice its timeout. Its worker is free only
// when the handler returns.
func (a *attempt) giveUp() {
	if !a.settled.CompareAndSwap(false, true) {
		return
	}
	a.handlers.log.Warn("a handler took twice its timeout: its attempt has failed", "delivery_id", a.delivery.ID,
		"attempt", a.delivery.Attempt, "timeout_s", a.timeout.Seconds())
	a.record(dispatcher.Handled{
		Verdict: dispatcher.Retry, Class: dispatcher.ClassTimeout, At: a.began,
		Error: fmt.Sprintf("the handler did not return within %s, nor within twice that time", ladder.FormatDuration(a.timeout)),
	})
}
