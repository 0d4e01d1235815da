package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// What takers need of the engine: queues' handlers, and callers of the API. They lease
// by calls of their own, and take no permit.

var errMayNot = fmt.Errorf("this instance may lease nothing now: %w", dispatcher.ErrUnavailable)

// Lease makes a call that may lease something to this instance, and answers what it
// answers. The call gets a context of its own: ctx may end before it was answered. An
// ErrUnavailable says that this instance may lease nothing now, or that the answer was
// lost: what was leased then is handed back soon.
func (e *Engine) Lease(ctx context.Context, call func(ctx context.Context, by string) ([]dispatcher.Claimed, error)) ([]dispatcher.Claimed, error) {
	name, ok := e.mayLease()
	if !ok {
		return nil, errMayNot
	}
	return e.leaseAs(ctx, name, call)
}

// Regain is Lease for what was given out and comes back to be settled. It works during the
// shutdown too, as long as outcomes are recorded.
func (e *Engine) Regain(ctx context.Context, call func(ctx context.Context, by string) ([]dispatcher.Claimed, error)) ([]dispatcher.Claimed, error) {
	s := e.identity.Load()
	if !e.alive(s) || e.settler.ended() {
		return nil, errMayNot
	}
	return e.leaseAs(ctx, s.name(), call)
}

func (e *Engine) leaseAs(ctx context.Context, name string, call func(ctx context.Context, by string) ([]dispatcher.Claimed, error)) ([]dispatcher.Claimed, error) {
	claimed, err := e.lease(ctx, func(ctx context.Context) ([]dispatcher.Claimed, error) { return call(ctx, name) })
	if errors.Is(err, dispatcher.ErrFenced) {
		e.rename(name)
		err = fmt.Errorf("%w: %w", err, dispatcher.ErrUnavailable)
	}
	return claimed, err
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

// bodiesAtOnce is how many large bodies one Fit reads at once: the store has few
// connections for them.
const bodiesAtOnce = 4

// Fit tells which of the deliveries that a taker just got may be given to it, with their
// bodies: at most so many bytes of them, or one. unfit is what becomes of the others, for
// Settle. The order of both is that of the call.
func (e *Engine) Fit(ctx context.Context, leased []dispatcher.Claimed, bytes int) (fit []dispatcher.Claimed, unfit []dispatcher.Settlement) {
	var rest, toEndpoints []dispatcher.Claimed
	stalled := func(c *dispatcher.Claimed) dispatcher.Settlement {
		return dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased, Pause: endpoints.StalledFor, Stalled: dispatcher.WhySealed}
	}
	for _, c := range leased {
		switch {
		case c.Message == nil:
			unfit = append(unfit, poisoned(c, e.store.Now()))
		case c.Message.Sealed != "": // without its headers it is not what was published
			unfit = append(unfit, stalled(&c))
		case c.ID.Lane.IsEndpoint():
			toEndpoints = append(toEndpoints, c)
		default:
			rest = append(rest, c)
		}
	}
	if len(toEndpoints) > 0 {
		may, back, err := e.endpoints.CheckVersions(ctx, toEndpoints)
		e.outages.Report("admit", err)
		unfit = append(unfit, back...)
		for _, c := range may {
			if misplaced(c.Message, e.endpoints.Cache.Cached(c.ID.Lane)) {
				unfit = append(unfit, stalled(&c))
				continue
			}
			rest = append(rest, c)
		}
	}
	n, left := 0, bytes
	for ; n < len(rest); n++ {
		if left -= size(&rest[n]); left < 0 && n > 0 {
			break
		}
	}
	unfit = append(unfit, backs(rest[n:], 0)...)
	for i, lost := range e.readBodies(ctx, rest[:n]) {
		if lost != nil {
			unfit = append(unfit, *lost)
		} else {
			fit = append(fit, rest[i])
		}
	}
	return fit, unfit
}

// misplaced reports whether a message with headers is of another tenant than its endpoint.
// Only a person that can write to Redis can have put it there, and must not read them.
func misplaced(m *dispatcher.Message, e *dispatcher.Endpoint) bool {
	return e != nil && len(m.Headers) > 0 && e.Tenant != m.Tenant
}

// size is that of a delivery's body.
func size(c *dispatcher.Claimed) int {
	if large(c) {
		return c.Message.Apart.Size
	}
	return len(c.Message.Body)
}

// readBodies reads the bodies of those that were leased without. lost is what becomes of
// each that has none; nil: it has one.
func (e *Engine) readBodies(ctx context.Context, list []dispatcher.Claimed) (lost []*dispatcher.Settlement) {
	lost = make([]*dispatcher.Settlement, len(list))
	var reading errgroup.Group
	reading.SetLimit(bodiesAtOnce)
	for i := range list {
		c := &list[i]
		if !large(c) || c.Message.Body != nil {
			continue
		}
		reading.Go(func() error {
			body, err := e.deliveries.Body(ctx, c.ID, *c.Message.Apart)
			m := *c.Message
			m.Body = body
			switch {
			case err == nil:
				c.Message = &m
			case errors.Is(err, dispatcher.ErrNotFound) && e.loader.unfinished(c.ID):
				e.log.LogAttrs(ctx, slog.LevelError, "body missing, its delivery can't be made",
					slog.String("delivery_id", c.ID.String()), slog.Any("err", err))
				s := poisoned(*c, e.store.Now())
				lost[i] = &s
			default:
				lost[i] = &backs([]dispatcher.Claimed{*c}, backPause)[0]
			}
			return nil
		})
	}
	_ = reading.Wait() // none fails: each says what becomes of its own
	return lost
}

// Headers are those that a call of a delivery would have at a time, signed where there is
// a secret. Nothing that is called goes without.
func (e *Engine) Headers(c dispatcher.Claimed, at time.Time) (http.Header, error) {
	r, err := e.deliverer.takenRoute(c, at)
	if err != nil {
		return nil, fmt.Errorf("headers of %s: %w", c.ID, err)
	}
	h := e.deliverer.headers(c, at, &r)
	if h == nil {
		return nil, fmt.Errorf("headers of %s: %w", c.ID, errUnsignable)
	}
	return h, nil
}

// takenRoute is the route of a delivery that is not called. That of a queue has no URL, and
// no signer where there is no secret.
func (d *deliverer) takenRoute(c dispatcher.Claimed, at time.Time) (r route, err error) {
	if c.ID.Lane.IsEndpoint() {
		return d.ofEndpoint(c, at)
	}
	r = d.defaults(c.Message, nil)
	if signers := d.signers.Load(); signers != nil {
		if r.signer, err = signers.of(c.Message.Tenant); err == nil {
			r.signed = r.signer.Header()
		}
	}
	return r, err
}

// ofEndpoint is the route of an endpoint's delivery, without a URL where it is never called.
func (d *deliverer) ofEndpoint(c dispatcher.Claimed, at time.Time) (route, error) {
	dest, err := d.engine.endpoints.Cache.Get(d.cut, string(c.ID.Lane))
	switch {
	case err != nil:
		return route{}, errHeld
	case dest.Fault != nil: // then its limits may be wrong too
		return route{}, errStalled
	case dest.Endpoint.Limits().Held != dispatcher.HeldNone:
		return route{}, errHeld
	}
	return d.routeTo(dest, c.Message, at), nil
}

// Timeout is how long an attempt at a delivery may take.
func (e *Engine) Timeout(c dispatcher.Claimed) time.Duration {
	return e.deliverer.defaults(c.Message, e.endpoints.Cache.Cached(c.ID.Lane)).timeout
}

// Finish records what a taker made of a delivery that this instance holds. It answers what
// becomes of the delivery if the lease still counts. done is told once that was recorded, or
// can't be any more, and must not block.
func (e *Engine) Finish(c dispatcher.Claimed, h dispatcher.Handled, done func(dispatcher.Settled)) dispatcher.Verdict {
	d, now := e.deliverer, e.store.Now()
	if h.At.IsZero() {
		h.At = now
	}
	if c.Message == nil {
		s := poisoned(c, h.At)
		e.settler.putAndTell(s, true, done)
		d.tell(c, s, h.At, true)
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
	s := dispatcher.Settlement{
		ID: c.ID, Due: c.Due, First: c.First, Leased: c.Leased, Endpoint: endpoint,
		Verdict: o.Verdict, Wait: o.Wait, Reason: o.Reason, Attempt: o.Attempt,
	}
	s.Attempt.Number, s.Attempt.At, s.Attempt.Resend = c.Attempt, h.At, c.Asked
	e.settler.putAndTell(s, true, done)
	d.tell(c, s, h.At, true)
	return s.Verdict
}

// Succeeded records that an attempt at a delivery succeeded whose lease had ended. That
// counts where the delivery has not ended. done is told as by Finish.
func (e *Engine) Succeeded(id dispatcher.DeliveryID, attempt int, done func(dispatcher.Settled)) {
	now := e.store.Now()
	s := dispatcher.Settlement{ID: id, Verdict: dispatcher.Delivered}
	s.Attempt = dispatcher.Attempt{Number: attempt, At: now, Verdict: dispatcher.Delivered}
	e.settler.putAndTell(s, false, func(is dispatcher.Settled) {
		if is.Result == dispatcher.SettledOK || is.Result == dispatcher.SettledDone {
			e.deliverer.tell(dispatcher.Claimed{ID: id, Due: now, Attempt: attempt}, s, now, true)
		}
		done(is)
	})
}

// Settle records outcomes of leases that nothing was made of, as Fit answers them.
func (e *Engine) Settle(outcomes ...dispatcher.Settlement) { e.settler.put(outcomes...) }

// HandBack gives up leases that nothing was made of: their deliveries go back to the heads
// of their lanes, in their order.
func (e *Engine) HandBack(leased ...dispatcher.Claimed) { e.settler.put(backs(leased, 0)...) }

// HandBackLater is HandBack of what can't be begun now. Its lane rests for a moment.
func (e *Engine) HandBackLater(leased ...dispatcher.Claimed) {
	e.settler.put(backs(leased, backPause)...)
}

// linked reports whether a link set the URL.
func (r *route) linked() bool { return r.endpoint != nil && r.endpoint.Linked }
