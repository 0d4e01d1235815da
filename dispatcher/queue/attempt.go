package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// attempt is one call of a handler.
type attempt struct {
	handlers *handlers
	of       *handledLane
	claimed  dispatcher.Claimed
	delivery Delivery
	began    time.Time
	timeout  time.Duration
	told     atomic.Bool // what became of it: it is told once
}

// lateAfter is how long after its deadline an attempt fails though its handler did not
// return. A handler that heeds its context returns by then, and tells more.
const lateAfter = 100 * time.Millisecond

// work handles tasks until there are no more.
func (h *handlers) work() {
	whole := false
	defer func() {
		if !whole { // a handler ended its goroutine, and another one takes its place
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
	h.mu.Lock()
	stopping := h.stopping
	if !stopping {
		h.under[a] = struct{}{}
	}
	h.mu.Unlock()
	defer h.returned(a)
	switch {
	case stopping:
		h.engine.HandBack(t.claimed)
	case a.fits():
		a.run()
	}
}

// returned frees the worker of an attempt.
func (h *handlers) returned(a *attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.under, a)
	a.of.running--
	h.free++
	if h.need > 0 && h.free >= h.need {
		h.signal()
	}
	if h.stopping && len(h.under) == 0 {
		h.closeIdle()
	}
}

// closeIdle tells that nothing is under way. mu is held.
func (h *handlers) closeIdle() {
	select {
	case <-h.idle:
	default:
		close(h.idle)
	}
}

// cutWithin is how long handlers have to return once their contexts were cancelled.
const cutWithin = 2 * time.Second

// stop waits for what is under way, as Queue.Run says.
func (h *handlers) stop() {
	h.mu.Lock()
	h.stopping = true
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
		if a.told.CompareAndSwap(false, true) {
			h.engine.HandBack(a.claimed)
		}
	}
	h.mu.Unlock()
	if left == 0 {
		h.all.Wait()
		return
	}
	h.log.Error("handlers do not heed their contexts and go on beside the end of Run", "handlers", left)
}

// waitIdle waits until nothing is under way, and reports whether that is so.
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

// fits reports whether the delivery can be handled, and reads a large body. What can't be is
// settled.
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

// run calls the handler and tells what it made of the delivery.
func (a *attempt) run() {
	h, m := a.handlers, a.claimed.Message
	a.began, a.timeout = h.engine.Now(), h.engine.Timeout(a.claimed)
	a.delivery = Delivery{
		ID: a.claimed.ID.String(), MessageID: m.ID, Queue: a.of.queue, Topic: m.Topic, Tenant: m.Tenant, Subject: m.Subject,
		Attempt: a.claimed.Attempt, Body: m.Body, ContentType: m.ContentType, CreatedAt: m.CreatedAt,
	}
	if len(m.Headers) > 0 {
		a.delivery.Headers = make(map[string]string, len(m.Headers))
		for _, header := range m.Headers {
			a.delivery.Headers[header.Name] = header.Value
		}
	}
	ctx, cancel := context.WithTimeout(h.cut, a.timeout)
	defer cancel()
	late := time.AfterFunc(a.timeout+lateAfter, a.overdue)
	defer late.Stop()
	a.tell(ctx, a.call(ctx))
}

// handlerContext is the context of a handler, which knows its delivery.
type handlerContext struct {
	context.Context
	delivery *Delivery
}

// Value is the delivery, or what the context has besides.
func (c handlerContext) Value(key any) any {
	if key == (deliveryKey{}) {
		return c.delivery
	}
	return c.Context.Value(key)
}

// panicError is a panic of a handler, with its stack.
type panicError struct{ text string }

func (e panicError) Error() string { return e.text }

var errLeft = errors.New("the handler ended its goroutine")

// call calls the handler. A panic is an error of it. Where the handler ends its goroutine,
// call does not return.
func (a *attempt) call(ctx context.Context) (err error) {
	returned := false
	defer func() {
		p := recover()
		switch {
		case returned:
		case p == nil:
			a.tell(ctx, errLeft)
		default:
			err = panicError{fmt.Sprintf("panic: %v\n%s", p, raised(debug.Stack()))}
			a.handlers.log.Error("handler panicked", "delivery_id", a.delivery.ID, "attempt", a.delivery.Attempt, "err", err)
		}
	}()
	err = a.of.handle(handlerContext{ctx, &a.delivery}, a.delivery)
	returned = true
	return err
}

// raised is a stack from where the panic was raised on.
func raised(stack []byte) string {
	text := string(stack)
	if _, rest, ok := strings.Cut(text, "\npanic("); ok {
		if lines := strings.SplitN(rest, "\n", 3); len(lines) == 3 {
			return lines[2]
		}
	}
	return text
}

// tell gives the outcome of the attempt, unless that was told: it is overdue, or the program
// did not wait for it.
func (a *attempt) tell(ctx context.Context, err error) {
	h := a.handlers
	if !a.told.CompareAndSwap(false, true) {
		h.log.Warn("a handler returned after its attempt was given up", "delivery_id", a.delivery.ID, "attempt", a.delivery.Attempt,
			"took_s", h.engine.Now().Sub(a.began).Round(time.Millisecond).Seconds(), "succeeded", err == nil)
		return
	}
	out := dispatcher.Handled{Verdict: dispatcher.Retry, Class: dispatcher.ClassHandler, At: a.began}
	var skip skipError
	var again retryError
	var raised panicError
	switch {
	case err == nil:
		out.Verdict, out.Class = dispatcher.Delivered, dispatcher.ClassNone
	case errors.As(err, &skip):
		out.Verdict = dispatcher.Dead
	case errors.As(err, &again):
		out.After = &again.after
	case errors.As(err, &raised):
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.Class = dispatcher.ClassTimeout
	case h.cut.Err() != nil:
		h.engine.HandBack(a.claimed) // it failed because the program ends
		return
	}
	if err != nil {
		out.Error = err.Error()
	}
	h.engine.Finish(a.claimed, out, ignore)
}

// ignore hears what became of an outcome: whatever that is, nothing is left to do.
func ignore(dispatcher.Settled) {}

// overdue fails an attempt whose handler did not return in time. Its worker is taken until
// the handler does.
func (a *attempt) overdue() {
	if !a.told.CompareAndSwap(false, true) {
		return
	}
	a.handlers.log.Warn("a handler did not return by its deadline; its worker is not free until it does",
		slog.String("delivery_id", a.delivery.ID), slog.Int("attempt", a.delivery.Attempt), slog.Float64("timeout_s", a.timeout.Seconds()))
	a.handlers.engine.Finish(a.claimed, dispatcher.Handled{
		Verdict: dispatcher.Retry, Class: dispatcher.ClassTimeout, At: a.began,
		Error: fmt.Sprintf("the handler did not return within %s", a.timeout),
	}, ignore)
}
