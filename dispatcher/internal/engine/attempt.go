package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/ladder"
)

// deliverer makes attempts. It has the dependencies that all attempts share.
type deliverer struct {
	engine       *Engine
	sender       dispatcher.Sender
	signers      atomic.Pointer[signers] // for bare URLs; nil: no secret is set, and nothing is sent to bare URLs
	ladder       ladder.Ladder
	jitter       float64
	success      *success.Rule
	timeout      time.Duration
	disableAfter time.Duration // 0: a destination may fail for ever
	excerpt      int
	agent        []string // the user-agent header's values, shared by all calls
	prefix       dispatcher.HeaderPrefix
	names        dispatcher.CallbackHeaders // names that begin with prefix
	targets      targets
	seconds      secondText
	cut          context.Context // ends when running attempts are cancelled
}

// deliveryAttempt is one attempt at a delivery. Its stages are in this order: deliver, make,
// prepare, send, judge, record.
type deliveryAttempt struct {
	*deliverer
	claimed *dispatcher.Claimed
	began   time.Time
	route   route // zero until prepare sets it
	body    []byte
	outcome dispatcher.Settlement
	span    trace.Span // nil: not traced
}

// deliver makes one attempt. It releases the permit after the response, before the outcome is
// recorded.
func (d *deliverer) deliver(c *dispatcher.Claimed) {
	began, local := d.engine.store.Now(), time.Now()
	a := attempts.Get().(*deliveryAttempt)
	a.deliverer, a.claimed, a.began = d, c, began
	s := &a.outcome
	s.ID, s.Due, s.First, s.Leased = c.ID, c.Due, c.First, c.Leased
	newcomer := d.engine.loans.begin(c)
	switch {
	case c.Message == nil || c.Message.Success.Check() != nil:
		a.poison()
	case !d.engine.alive(d.engine.identity.Load()):
		a.goBack(0, "") // this process was suspended, and another instance may have the lease by now
	default:
		a.make()
	}
	a.outcome.Attempt.Place(d.engine.store.Now(), time.Since(local))
	if a.span != nil {
		a.endSpan()
	}
	d.engine.loader.done(c)
	d.engine.loans.end(newcomer)
	a.record()
	*a = deliveryAttempt{}
	attempts.Put(a)
}

// attempts is the pool of deliveryAttempts. On the stack one would take a quarter of the 8 KiB
// that a goroutine needs while it waits for the response.
var attempts = sync.Pool{New: func() any { return new(deliveryAttempt) }}

// poisoned returns the outcome of a delivery whose record no instance can read. Its attempt
// has no number, because no request was sent.
func poisoned(c dispatcher.Claimed, at time.Time) dispatcher.Settlement {
	return dispatcher.Settlement{
		ID: c.ID, Due: c.Due, First: c.First, Leased: c.Leased, Verdict: dispatcher.Dead, Reason: dispatcher.ReasonPoison,
		Attempt: dispatcher.Attempt{At: at, Verdict: dispatcher.Dead, Class: dispatcher.ClassInternal, Error: errRecord.Error()},
	}
}

// poison is for deliver, whose stack frame has to be small.
//
//go:noinline
func (a *deliveryAttempt) poison() { a.outcome = poisoned(*a.claimed, a.began) }

// Reasons for making no attempt, as the history of the message shows them. Publish refuses
// most of these cases, so something has changed after the publish.
var (
	errRecord     = errors.New("the stored message can't be read")
	errTarget     = errors.New("the URL can't be read")
	errNoSecret   = errors.New("no SIGNING_SECRET is set: nothing is sent unsigned")
	errSuccess    = errors.New("the endpoint's stored success can't be read: set it anew with PATCH")
	errStopped    = errors.New("its endpoint may not be called now")
	errStalled    = errors.New("its endpoint can't be read")
	errMisplaced  = errors.New("its headers are of another tenant")
	errUnsignable = errors.New("this id can't be signed: nothing is sent unsigned")
	errPanic      = errors.New("a fault of the dispatcher, which its log describes")
)

// make prepares and sends the request. A panic in our own code costs the delivery one rung,
// and the process continues.
func (a *deliveryAttempt) make() {
	defer func() {
		if p := recover(); p != nil {
			e, c := a.engine, a.claimed
			e.log.Error("attempt panicked", "delivery_id", c.ID.String(), "attempt", c.Attempt,
				"err", fmt.Sprint(p), "stack", string(debug.Stack()))
			a.route = a.defaults(c.Message, e.endpoints.Cache.Cached(c.ID.Lane))
			a.fail(errPanic)
		}
	}()
	if header := a.prepare(); header != nil {
		a.send(header)
	}
}

// prepare finds the route and returns the signed headers of the request. It returns nil if no
// request may be sent. In that case it has set the outcome.
func (a *deliveryAttempt) prepare() http.Header {
	c, m := a.claimed, a.claimed.Message
	var err error
	a.route, err = a.routeOf(c, a.began)
	switch {
	case errors.Is(err, errStopped):
		a.goBack(0, "")
	case errors.Is(err, errStalled):
		a.goBack(endpoints.StalledFor, dispatcher.WhySealed)
	case errors.Is(err, errMisplaced):
		a.outcome = a.engine.waitAlone(c)
	case err != nil:
		a.fail(err)
	case a.route.success.Check() != nil:
		a.fail(errSuccess)
	case !m.ExpiresAt.IsZero() && !a.began.Before(m.ExpiresAt): // it expired while it waited for a worker
		a.judge(dispatcher.Answer{Class: dispatcher.ClassExpired})
		a.outcome.Attempt.Number = 0 // no request was sent
	case m.Sealed != "": // without its headers a receiver may refuse it
		a.outcome = a.engine.waitAlone(c)
	default:
		header := a.headers(c, a.began, &a.route)
		if header == nil {
			a.fail(errUnsignable)
		}
		return header
	}
	return nil
}

// send sends the request and judges the response, unless this host can't send it now.
func (a *deliveryAttempt) send(header http.Header) {
	e, c, r := a.engine, a.claimed, &a.route
	if wait, may := e.network.mayAttempt(c); !may {
		a.goBack(wait, dispatcher.WhyEgress)
		return
	}
	if !e.Begins(a.cut, c, false) {
		a.goBack(backPause, "")
		return
	}
	if e.options.Tracer != nil {
		a.beginSpan(header)
	}
	ctx := wait.NewUntil(a.cut, time.Now().Add(r.timeout))
	defer ctx.Stop()
	answer := a.sender.Send(ctx, dispatcher.Call{URL: r.url, Header: header, Body: c.Message.Body, Lane: c.ID.Lane, Linked: r.linked()})
	switch {
	case answer.Status == 0 && a.cut.Err() != nil:
		a.goBack(0, "")
	case answer.Status == 0 && errors.Is(answer.Err, dispatcher.ErrExhausted):
		e.shortage.report(answer.Err)
		a.goBack(0, "")
	case a.ownFault(&answer):
	default:
		a.judge(answer)
		a.body = answer.Body
	}
}

// beginSpan begins the span of a call. It is a child of the span that published the message, and
// linked to it: the attempt may be days later. If the receiver gets a traceparent, it is that
// of the attempt.
//
//go:noinline
func (a *deliveryAttempt) beginSpan(header http.Header) {
	c, m, r := a.claimed, a.claimed.Message, &a.route
	s := trace.Start{Name: "attempt", Kind: trace.Client}
	if m.Trace != nil {
		s.Parent, s.Links = *m.Trace, []trace.Context{*m.Trace}
	}
	s.Attrs = []slog.Attr{
		trace.Ours(), slog.String(trace.Operation, "attempt"), slog.String(trace.OperationType, trace.Send),
		slog.String(trace.MessageID, m.ID), slog.String(trace.Destination, string(c.ID.Lane)), slog.Int(trace.BodySize, len(m.Body)),
		slog.String(trace.Method, http.MethodPost), slog.String(trace.Scheme, r.url.Scheme), slog.String(trace.ServerAddress, r.url.Hostname()),
		slog.String(trace.DeliveryID, c.ID.String()), slog.Int(trace.Attempt, c.Attempt), slog.String(trace.Topic, m.Topic), slog.String(trace.Tenant, m.Tenant),
	}
	if port, err := strconv.Atoi(r.url.Port()); err == nil {
		s.Attrs = append(s.Attrs, slog.Int(trace.ServerPort, port))
	}
	if c.Asked {
		s.Attrs = append(s.Attrs, slog.Bool(trace.Resend, true))
	}
	_, a.span = a.engine.options.Tracer.Begin(a.cut, s)
	if r.endpoint != nil && r.endpoint.Trace && a.span.Recorded() {
		header[trace.Header] = []string{a.span.Context().String()}
	}
}

// endSpan ends the span with the outcome. An attempt that returns to its lane failed because of
// this process, or of its network.
//
//go:noinline
func (a *deliveryAttempt) endSpan() {
	s := &a.outcome
	attrs := []slog.Attr{slog.String(trace.Outcome, s.Verdict.String()), slog.String(trace.Reason, string(s.Reason))}
	if s.Attempt.Status != 0 {
		attrs = append(attrs, slog.Int(trace.Status, s.Attempt.Status))
	}
	a.span.Set(attrs...)
	failed := ""
	switch {
	case s.Verdict == dispatcher.Delivered:
	case s.Verdict == dispatcher.Back:
		failed = cmp.Or(string(s.Stalled), "back")
	case s.Attempt.Class == dispatcher.ClassStatus:
		failed = strconv.Itoa(s.Attempt.Status)
	default:
		failed = string(s.Attempt.Class)
	}
	a.span.End(failed, time.Time{})
}

// goBack returns the delivery to the head of its lane without an attempt. The lane waits for
// the given pause. why is shown to people; empty: nothing is shown.
func (a *deliveryAttempt) goBack(pause time.Duration, why dispatcher.LaneWhy) {
	a.outcome.Verdict, a.outcome.Pause, a.outcome.Stalled = dispatcher.Back, pause, why
}

// ownFault returns the delivery to its lane if our own network made the attempt fail. It
// reports whether it did so. If the lane has waited for too long, it changes the answer so
// that the receiver is blamed.
func (a *deliveryAttempt) ownFault(answer *dispatcher.Answer) bool {
	if answer.Class != dispatcher.ClassEgress { // checked before fault, which is on the heap
		return false
	}
	var fault *dispatcher.EgressError
	if !errors.As(answer.Err, &fault) {
		return false
	}
	wait, back := a.engine.network.failed(a.claimed, fault)
	if back {
		a.goBack(wait, dispatcher.WhyEgress)
		return true
	}
	a.outcome.Stalled = dispatcher.WhyEgress
	answer.Class, answer.Err = fault.Class(), fault.Err
	return false
}

// fail judges an attempt that failed because of our own fault. The ladder decides about a
// retry.
func (a *deliveryAttempt) fail(err error) {
	took := max(a.engine.store.Now().Sub(a.began), 0)
	a.judge(dispatcher.Answer{Class: dispatcher.ClassInternal, Err: err, Took: took})
}

// judge sets the outcome according to the response.
func (a *deliveryAttempt) judge(answer dispatcher.Answer) {
	c, r, s := a.claimed, &a.route, &a.outcome
	if answer.Location != "" {
		answer.Location = string(dispatcher.Excerpt([]byte(answer.Location), len(answer.Location), r.secrets))
	}
	s.Judged(dispatcher.Judge(dispatcher.Case{
		Answer: answer, Success: r.success, Rung: c.Rung, Ladder: r.ladder, MaxAttempts: c.Message.MaxAttempts, WaitsOn: c.WaitsOn,
		Now: a.engine.store.Now(), ExpiresAt: c.Message.ExpiresAt, Jitter: a.jitter, Random: rand.Float64(),
	}))
	s.Attempt.Number, s.Attempt.At, s.Attempt.Address, s.Attempt.Resend = c.Attempt, a.began, answer.Address, c.Asked
	s.Attempt.ShortHello = answer.ShortHello
	s.Endpoint, s.DisableAfter = r.endpoint, r.disableAfter
	if r.endpoint != nil {
		s.Attempt.URL = r.endpoint.URL
	}
}

// record passes the outcome to the settler and logs the attempt.
func (a *deliveryAttempt) record() {
	a.engine.progress.record.begin()
	defer a.engine.progress.record.end()
	c, r, s := a.claimed, &a.route, &a.outcome
	kept := a.excerpt
	if c.First && s.Verdict == dispatcher.Delivered {
		kept = min(kept, dispatcher.ProofBytes) // it has no history
	}
	s.Attempt.Excerpt = dispatcher.Excerpt(a.body, kept, r.secrets) // after the permit was released, because a long response takes long
	if s.Reason == dispatcher.ReasonGone && r.endpoint != nil {
		// This runs before the outcome is recorded. If the process dies in between, the
		// delivery is attempted again.
		a.engine.endpoints.Disable(r.endpoint, dispatcher.WhyGone)
	}
	if r.url != nil {
		s.Host = r.url.Host
	}
	a.engine.settler.put(*s)
	if s.Verdict != dispatcher.Back {
		a.report(*c, *s, a.began, false)
	}
}

// report logs an attempt and reports it to the observer. It does not report a death, because
// the queue decides which deliveries die.
func (d *deliverer) report(c dispatcher.Claimed, s dispatcher.Settlement, began time.Time, taken bool) {
	ctx := context.Background() // for logging, which must not be cancelled
	if d.engine.log.Enabled(ctx, slog.LevelDebug) {
		d.engine.log.LogAttrs(ctx, slog.LevelDebug, "attempt finished",
			slog.String("delivery_id", c.ID.String()), slog.Int("attempt", c.Attempt), slog.String("host", s.Host),
			slog.String("verdict", s.Verdict.String()), slog.Int("status", s.Attempt.Status),
			slog.String("reason", string(s.Reason)), seconds("wait_s", s.Wait),
			slog.Float64("took_ms", float64(s.Attempt.Duration.Microseconds())/1000), slog.String("err", s.Attempt.Logged()))
	}
	d.engine.watching.observe(func(o dispatcher.Observer) {
		a := dispatcher.Attempted{ID: c.ID, Host: s.Host, Attempt: s.Attempt, Wait: s.Wait, Reason: s.Reason, Late: lateness(c, began), Taken: taken}
		if c.Message != nil {
			a.Topic, a.URL = c.Message.Topic, c.Message.URL
			a.Since = tookInAll(c, &s)
		}
		o.Attempted(a)
	})
}

// lateness returns the time from due to the start of an attempt. No delivery is due before its
// message was accepted.
func lateness(c dispatcher.Claimed, began time.Time) time.Duration {
	due := c.Due
	if c.Message != nil && c.Message.CreatedAt.After(due) {
		due = c.Message.CreatedAt
	}
	return max(began.Sub(due), 0)
}

// tookInAll returns the time from acceptance to success. It is 0 if the delivery was not
// delivered, or if a person requested one of its attempts.
func tookInAll(c dispatcher.Claimed, s *dispatcher.Settlement) time.Duration {
	if s.Verdict != dispatcher.Delivered || c.Asked || c.Rung != c.Attempt {
		return 0
	}
	from := c.Message.CreatedAt
	if c.Message.DeliverAt.After(from) {
		from = c.Message.DeliverAt
	}
	return max(s.Attempt.At.Add(s.Attempt.Duration).Sub(from), 1)
}
