package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"net/url"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// deliverer makes attempts: it signs, sends, has the answer judged, and gives
// the outcome to the settler.
type deliverer struct {
	engine       *Engine
	sender       dispatcher.Sender
	signers      atomic.Pointer[signers] // of bare URLs; nil: there is no secret, and nothing is sent to one
	ladder       ladder.Ladder
	jitter       float64
	success      *success.Rule
	timeout      time.Duration
	disableAfter time.Duration // 0: a destination may fail for ever
	excerpt      int
	agent        []string // the user-agent header's values, shared by all calls
	prefix       dispatcher.HeaderPrefix
	names        dispatcher.CallbackHeaders // that begin with it
	targets      targets
	cut          context.Context // ends when attempts may no longer go on
}

// deliver makes one attempt. Its permit is released once there is an answer, before
// the outcome is recorded.
func (d *deliverer) deliver(c dispatcher.Claimed) {
	s := dispatcher.Settlement{ID: c.ID, Due: c.Due, First: c.First, Leased: c.Leased}
	began, local := d.engine.store.Now(), time.Now()
	var r route
	if c.Message == nil || c.Message.Success.Check() != nil {
		s = poisoned(c, began)
	} else if !d.engine.alive(d.engine.identity.Load()) {
		s.Verdict = dispatcher.Back // this process stood still meanwhile, and another may have the lease by now
	} else {
		r = d.guarded(c, began, &s)
	}
	s.Attempt.Place(d.engine.store.Now(), time.Since(local))
	d.engine.loader.done(&c)
	d.engine.permits.release(1)
	kept := d.excerpt
	if c.First && s.Verdict == dispatcher.Delivered {
		kept = min(kept, dispatcher.ProofBytes) // it has no history
	}
	s.Attempt.Excerpt = dispatcher.Excerpt(r.body, kept, r.secrets) // after the permit was released: this takes long for a long answer
	if s.Reason == dispatcher.ReasonGone && r.endpoint != nil {
		// Before the outcome is recorded: if this process dies here, the delivery is attempted again.
		d.engine.endpoints.Disable(r.endpoint, dispatcher.WhyGone)
	}
	s.Host = r.host()
	d.engine.settler.put(s)
	if s.Verdict != dispatcher.Back {
		d.tell(c, s, began, false)
	}
}

// poisoned is the outcome of a delivery whose record can't be read, by no instance. Its
// attempt has no number, since none was made.
func poisoned(c dispatcher.Claimed, at time.Time) dispatcher.Settlement {
	return dispatcher.Settlement{
		ID: c.ID, Due: c.Due, First: c.First, Leased: c.Leased, Verdict: dispatcher.Dead, Reason: dispatcher.ReasonPoison,
		Attempt: dispatcher.Attempt{At: at, Verdict: dispatcher.Dead, Class: dispatcher.ClassInternal, Error: errRecord.Error()},
	}
}

// Why no attempt was made, for the message's history. Most of these are refused when
// a message is published: something has changed since then.
var (
	errRecord     = errors.New("the stored message can't be read")
	errTarget     = errors.New("the URL can't be read")
	errNoSecret   = errors.New("no SIGNING_SECRET is set: nothing is sent unsigned")
	errSuccess    = errors.New("the endpoint's stored success can't be read: set it anew with PATCH")
	errHeld       = errors.New("its endpoint may not be called now")
	errStalled    = errors.New("its endpoint can't be read")
	errUnsignable = errors.New("this id can't be signed: nothing is sent unsigned")
	errPanic      = errors.New("a fault of the dispatcher, which its log describes")
)

// guarded makes an attempt. A panic in our own code costs the delivery one rung, and
// does not end the process.
func (d *deliverer) guarded(c dispatcher.Claimed, began time.Time, s *dispatcher.Settlement) (r route) {
	defer func() {
		if p := recover(); p != nil {
			d.engine.log.Error("attempt panicked", "delivery_id", c.ID.String(), "attempt", c.Attempt,
				"err", fmt.Sprint(p), "stack", string(debug.Stack()))
			d.fail(c, d.defaults(c.Message, d.engine.endpoints.Cache.Cached(c.ID.Lane)), began, s, errPanic)
		}
	}()
	return d.attempt(c, began, s)
}

// attempt finds the route, signs, sends, and has the answer judged. It fills in the
// settlement and answers the route.
func (d *deliverer) attempt(c dispatcher.Claimed, began time.Time, s *dispatcher.Settlement) route {
	m := c.Message
	r, err := d.route(c, began)
	switch {
	case errors.Is(err, errHeld):
		s.Verdict = dispatcher.Back
		return r
	case errors.Is(err, errStalled):
		s.Verdict, s.Pause, s.Stalled = dispatcher.Back, endpoints.StalledFor, dispatcher.WhySealed
		return r
	case err == nil && r.success.Check() != nil:
		err = errSuccess
	}
	switch {
	case err != nil:
		d.fail(c, r, began, s, err)
		return r
	case !m.ExpiresAt.IsZero() && !began.Before(m.ExpiresAt):
		// It expired since it was claimed, while it waited for a worker.
		d.judge(c, r, dispatcher.Answer{Class: dispatcher.ClassExpired}, began, s)
		s.Attempt.Number = 0 // none was made
		return r
	}
	if m.Sealed != "" { // without its headers a receiver may refuse it
		s.Verdict, s.Pause, s.Stalled = dispatcher.Back, endpoints.StalledFor, dispatcher.WhySealed
		return r
	}
	header := d.headers(c, began, &r)
	if header == nil {
		d.fail(c, r, began, s, errUnsignable)
		return r
	}
	if wait, may := d.engine.network.mayAttempt(&c); !may {
		s.Verdict, s.Pause, s.Stalled = dispatcher.Back, wait, dispatcher.WhyEgress
		return r
	}
	if !d.engine.Begins(d.cut, &c, false) {
		s.Verdict, s.Pause = dispatcher.Back, backPause
		return r
	}
	ctx, cancel := context.WithTimeout(d.cut, r.timeout)
	defer cancel()
	answer := d.sender.Send(ctx, dispatcher.Call{URL: r.url, Header: header, Body: m.Body, Lane: c.ID.Lane, Linked: r.linked()})
	if answer.Status == 0 && d.cut.Err() != nil {
		s.Verdict = dispatcher.Back
		return r
	}
	if answer.Status == 0 && errors.Is(answer.Err, dispatcher.ErrExhausted) {
		d.engine.shortage.report(answer.Err)
		s.Verdict = dispatcher.Back
		return r
	}
	if d.cutOff(&c, &answer, s) {
		return r
	}
	d.judge(c, r, answer, began, s)
	r.body = answer.Body
	return r
}

// route is what one attempt needs besides its message: the URL, the signer, and how
// the answer is judged.
type route struct {
	endpoint     *dispatcher.Endpoint // as it is called; nil: a bare URL
	url          *url.URL
	signer       *signer.Signer
	signed       string              // the header that holds the signature, in canonical form
	headers      []dispatcher.Header // of the endpoint, names in canonical form
	ladder       ladder.Ladder
	success      *success.Rule
	timeout      time.Duration
	disableAfter time.Duration // 0: never
	body         []byte        // of the answer, once it is there
	secrets      []string      // masked in an excerpt of the answer: signatures, and the headers of endpoint and message
}

func (r *route) host() string {
	if r.url == nil {
		return ""
	}
	return r.url.Host
}

// route finds the route of an attempt at a time. errHeld says that the attempt may not
// be made now, any other error that it can't be made.
func (d *deliverer) route(c dispatcher.Claimed, at time.Time) (route, error) {
	if c.ID.Lane.IsEndpoint() {
		return d.toEndpoint(c, at)
	}
	r := d.defaults(c.Message, nil)
	target, err := d.targets.of(c.Message)
	if err != nil {
		return r, errTarget
	}
	r.url = target.url
	signers := d.signers.Load()
	if signers == nil {
		return r, errNoSecret
	}
	if r.signer, err = signers.of(c.Message.Tenant); err == nil {
		r.signed = r.signer.Header()
	}
	return r, err
}

// toEndpoint is the route to an endpoint as it is now. An endpoint that was held or
// deleted after the claim is not called.
func (d *deliverer) toEndpoint(c dispatcher.Claimed, at time.Time) (route, error) {
	r, err := d.ofEndpoint(c, at)
	if err == nil && r.url == nil { // its lane's copy does not say that it is of kind pull
		return route{}, errStalled
	}
	if err == nil && misplaced(c.Message, r.endpoint) {
		return route{}, errStalled
	}
	return r, err
}

func (d *deliverer) routeTo(dest *endpoints.Destination, m *dispatcher.Message, at time.Time) route {
	r := d.defaults(m, dest.Endpoint)
	r.endpoint, r.url, r.headers = dest.Endpoint, dest.URL, dest.Headers
	r.signer, r.signed = dest.Signer(at)
	for _, h := range dest.Headers {
		r.secrets = append(r.secrets, h.Value)
	}
	return r
}

// defaults is the ladder, success and timeout of a route: the message's, else the
// endpoint's, else those of the settings.
func (d *deliverer) defaults(m *dispatcher.Message, e *dispatcher.Endpoint) route {
	r := route{ladder: d.ladder, success: d.success, timeout: d.timeout, disableAfter: d.disableAfter}
	if e != nil {
		if e.DisableAfter != nil {
			r.disableAfter = *e.DisableAfter
		}
		if e.Ladder != nil {
			r.ladder = *e.Ladder
		}
		if e.Success != nil {
			r.success = e.Success
		}
		if e.Timeout > 0 {
			r.timeout = e.Timeout
		}
	}
	if m.Ladder != nil {
		r.ladder = *m.Ladder
	}
	if m.Success != nil {
		r.success = m.Success
	}
	if m.Timeout > 0 {
		r.timeout = m.Timeout
	}
	return r
}

// Names of headers, in canonical form.
var (
	headerID        = textproto.CanonicalMIMEHeaderKey(signer.HeaderID)
	headerTimestamp = textproto.CanonicalMIMEHeaderKey(signer.HeaderTimestamp)
)

// headers are those of the contract, then the message's and the endpoint's own, which
// can't replace any of them. It is nil where the request can't be signed. What is taken
// from a queue is signed only if there is a secret.
func (d *deliverer) headers(c dispatcher.Claimed, at time.Time, r *route) http.Header {
	m := c.Message
	signature := ""
	if r.signer != nil {
		if signature = r.signer.Sign(m.ID, at, m.Body); signature == "" {
			return nil
		}
		r.secrets = append(r.secrets, signature)
	} else if !c.ID.Lane.IsQueue() {
		return nil
	}
	values := make([]string, 6) // one allocation for all headers with one value
	h := make(http.Header, 8+len(m.Headers)+len(r.headers))
	set := func(i int, name, value string) {
		values[i] = value
		h[name] = values[i : i+1 : i+1]
	}
	set(0, "Content-Type", m.ContentType)
	set(1, headerID, m.ID)
	set(2, headerTimestamp, strconv.FormatInt(at.Unix(), 10))
	set(3, d.names.Topic, m.Topic)
	set(4, d.names.Attempt, strconv.Itoa(c.Attempt))
	h["User-Agent"] = d.agent
	if m.Tenant != "" {
		h[d.names.Tenant] = []string{m.Tenant}
	}
	if c.Asked {
		h[d.names.Resend] = []string{"true"}
	}
	if signature != "" {
		set(5, r.signed, signature) // last: whatever its name is, no attempt is unsigned
	}
	for _, own := range m.Headers {
		r.secrets = append(r.secrets, own.Value)
		d.addHeader(h, textproto.CanonicalMIMEHeaderKey(own.Name), own)
	}
	for _, own := range r.headers {
		d.addHeader(h, own.Name, own) // after the message's own, which they can't replace
	}
	return h
}

// addHeader adds a header that is not there yet. Reserved names are refused when a
// message is published or an endpoint registered. They are skipped here too, since
// another version, or other settings, may have stored them: where a message has no tenant, a header of
// the tenant's name would pass for ours.
func (d *deliverer) addHeader(h http.Header, name string, own dispatcher.Header) {
	if _, taken := h[name]; !taken && d.prefix.CheckName(own.Name) == nil {
		h[name] = []string{own.Value}
	}
}

// judge fills in the settlement with what an answer means.
func (d *deliverer) judge(c dispatcher.Claimed, r route, answer dispatcher.Answer, began time.Time, s *dispatcher.Settlement) {
	m := c.Message
	if answer.Location != "" {
		answer.Location = string(dispatcher.Excerpt([]byte(answer.Location), len(answer.Location), r.secrets))
	}
	o := dispatcher.Judge(dispatcher.Case{
		Answer: answer, Success: r.success, Rung: c.Rung, Ladder: r.ladder, MaxAttempts: m.MaxAttempts, WaitsOn: c.WaitsOn,
		Now: d.engine.store.Now(), ExpiresAt: m.ExpiresAt, Jitter: d.jitter, Random: rand.Float64(),
	})
	s.Verdict, s.Wait, s.Reason, s.Blame, s.Fails, s.Pause = o.Verdict, o.Wait, o.Reason, o.Blame, o.Fails, o.Pause
	s.Endpoint, s.DisableAfter = r.endpoint, r.disableAfter
	s.Attempt = o.Attempt
	s.Attempt.Number, s.Attempt.At = c.Attempt, began
	s.Attempt.Address, s.Attempt.Resend = answer.Address, c.Asked
	if r.endpoint != nil {
		s.Attempt.URL = r.endpoint.URL
	}
}

// fail records an attempt that was our own fault; the ladder decides what follows.
func (d *deliverer) fail(c dispatcher.Claimed, r route, began time.Time, s *dispatcher.Settlement, err error) {
	took := max(d.engine.store.Now().Sub(began), 0)
	d.judge(c, r, dispatcher.Answer{Class: dispatcher.ClassInternal, Err: err, Took: took}, began, s)
}

// tell logs an attempt and tells the observer. What becomes of its delivery is decided
// in the queue.
func (d *deliverer) tell(c dispatcher.Claimed, s dispatcher.Settlement, began time.Time, taken bool) {
	ctx := context.Background() // for the log, which must not be cut off
	if d.engine.log.Enabled(ctx, slog.LevelDebug) {
		d.engine.log.LogAttrs(ctx, slog.LevelDebug, "attempt finished",
			slog.String("delivery_id", c.ID.String()), slog.Int("attempt", c.Attempt), slog.String("host", s.Host),
			slog.String("verdict", s.Verdict.String()), slog.Int("status", s.Attempt.Status),
			slog.String("reason", string(s.Reason)), seconds("wait_s", s.Wait),
			slog.Float64("took_ms", float64(s.Attempt.Duration.Microseconds())/1000), slog.String("err", s.Attempt.Logged()))
	}
	d.engine.watching.tell(func(o dispatcher.Observer) {
		a := dispatcher.Attempted{ID: c.ID, Host: s.Host, Attempt: s.Attempt, Wait: s.Wait, Reason: s.Reason, Late: lateness(c, began), Taken: taken}
		if c.Message != nil {
			a.Topic = c.Message.Topic
			a.Since = tookInAll(c, &s)
		}
		o.Attempted(a)
	})
}

// lateness is how long after its due time an attempt began. Nothing is due before it
// was accepted.
func lateness(c dispatcher.Claimed, began time.Time) time.Duration {
	due := c.Due
	if c.Message != nil && c.Message.CreatedAt.After(due) {
		due = c.Message.CreatedAt
	}
	return max(began.Sub(due), 0)
}

// tookInAll is the time from acceptance to success; 0: the delivery was not delivered,
// or a person asked for one of its attempts.
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
