package dispatcher

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
	"sync"
	"time"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// Names of the headers that a callback has besides the signature's, in the
// form that http.Header keeps them.
const (
	headerTopic   = "Hookladder-Topic"
	headerAttempt = "Hookladder-Attempt"
	headerTenant  = "Hookladder-Tenant"
	headerResend  = "Hookladder-Resend"
)

var (
	headerID        = textproto.CanonicalMIMEHeaderKey(signer.HeaderID)
	headerTimestamp = textproto.CanonicalMIMEHeaderKey(signer.HeaderTimestamp)
	headerSignature = textproto.CanonicalMIMEHeaderKey(signer.HeaderSignature)
)

// deliverer makes attempts: it signs, sends, has the answer judged, and gives
// the outcome to the settler.
type deliverer struct {
	engine   *engine
	sender   Sender
	signer   *signer.Signer // nil: there is no secret, and nothing is sent
	ladder   ladder.Ladder
	jitter   float64
	success  *Success
	timeout  time.Duration
	excerpt  int
	agent    []string // the user-agent header's values, shared by all calls
	observer Observer
	targets  targets
	cut      context.Context // ends when attempts may no longer go on
}

// deliver makes one attempt. The permit is given back when the answer is there,
// before it is settled.
func (d *deliverer) deliver(c Claimed) {
	s := Settlement{ID: c.ID, Due: c.Due, First: c.First}
	began := d.engine.view.clock.now()
	var host string
	if c.Message == nil {
		// A record that can't be read kills who reads it. No attempt has that number.
		s.Verdict, s.Reason = Dead, ReasonPoison
		s.Attempt = Attempt{At: began, Verdict: Dead, Class: ClassInternal, Error: errRecord.Error()}
	} else {
		host = d.guarded(c, began, &s)
	}
	d.engine.permits.release(1)
	d.engine.settler.put(s)
	if s.Verdict == Back {
		return
	}
	d.tell(c, s, host, began)
}

// What keeps an attempt from being made; for the message's history. Most are
// refused when a message is published: something has changed since.
var (
	errRecord     = errors.New("the stored message can't be read")
	errTarget     = errors.New("the URL can't be read")
	errNoSecret   = errors.New("no SIGNING_SECRET is set: nothing is sent unsigned")
	errUnsignable = errors.New("this id can't be signed: nothing is sent unsigned")
	errPanic      = errors.New("a fault of the dispatcher, which its log describes")
)

// guarded makes an attempt of which a fault in our own code costs one rung, and
// not the process with all that it holds.
func (d *deliverer) guarded(c Claimed, began time.Time, s *Settlement) (host string) {
	defer func() {
		if p := recover(); p != nil {
			d.engine.log.Error("attempt panicked", "delivery_id", c.ID.String(), "attempt", c.Attempt,
				"err", fmt.Sprint(p), "stack", string(debug.Stack()))
			d.fail(c, began, s, errPanic)
		}
	}()
	return d.attempt(c, began, s)
}

// fail records an attempt that was our own fault; the ladder decides what follows.
func (d *deliverer) fail(c Claimed, began time.Time, s *Settlement, err error) {
	took := max(d.engine.view.clock.now().Sub(began), 0)
	d.judge(c, Answer{Class: ClassInternal, Err: err, Took: took}, began, s, nil)
}

// attempt fills in the settlement and answers the destination's host.
func (d *deliverer) attempt(c Claimed, began time.Time, s *Settlement) (host string) {
	m := c.Message
	target, err := d.targets.of(m.URL)
	switch {
	case err != nil:
		d.fail(c, began, s, errTarget)
		return ""
	case !m.ExpiresAt.IsZero() && !began.Before(m.ExpiresAt):
		// It expired since it was claimed, behind slow ones at the gate.
		d.judge(c, Answer{Class: ClassExpired}, began, s, nil)
		s.Attempt.Number = 0 // none was made
		return target.Host
	case d.signer == nil:
		d.fail(c, began, s, errNoSecret)
		return target.Host
	}
	timeout := d.timeout
	if m.Timeout > 0 {
		timeout = m.Timeout
	}
	header, signature := d.headers(c, began)
	if signature == "" {
		d.fail(c, began, s, errUnsignable)
		return target.Host
	}
	ctx, cancel := context.WithTimeout(d.cut, timeout)
	defer cancel()
	answer := d.sender.Send(ctx, Call{URL: target, Header: header, Body: m.Body})
	if answer.Status == 0 && d.cut.Err() != nil {
		s.Verdict = Back
		return target.Host
	}
	d.judge(c, answer, began, s, []string{signature})
	return target.Host
}

// headers are those of the contract, and then the message's own, which can't
// replace them.
func (d *deliverer) headers(c Claimed, at time.Time) (h http.Header, signature string) {
	m := c.Message
	signature = d.signer.Sign(m.ID, at, m.Body)
	values := make([]string, 6) // one allocation for all headers with one value
	h = make(http.Header, 8+len(m.Headers))
	set := func(i int, name, value string) {
		values[i] = value
		h[name] = values[i : i+1 : i+1]
	}
	set(0, "Content-Type", m.ContentType)
	set(1, headerID, m.ID)
	set(2, headerTimestamp, strconv.FormatInt(at.Unix(), 10))
	set(3, headerSignature, signature)
	set(4, headerTopic, m.Topic)
	set(5, headerAttempt, strconv.Itoa(c.Attempt))
	h["User-Agent"] = d.agent
	if m.Tenant != "" {
		h[headerTenant] = []string{m.Tenant}
	}
	if c.Asked {
		h[headerResend] = []string{"true"}
	}
	for _, own := range m.Headers {
		name := textproto.CanonicalMIMEHeaderKey(own.Name)
		// A reserved name is refused when it is published; one that is not ours this time, as
		// the tenant's, must not be claimed by a record that came from elsewhere either.
		if _, taken := h[name]; !taken && CheckHeaderName(own.Name) == nil {
			h[name] = []string{own.Value}
		}
	}
	return h, signature
}

func (d *deliverer) judge(c Claimed, answer Answer, began time.Time, s *Settlement, own []string) {
	m := c.Message
	steps, success := d.ladder, d.success
	if m.Ladder != nil {
		steps = *m.Ladder
	}
	if m.Success != nil {
		success = m.Success
	}
	o := Judge(Case{
		Answer: answer, Success: success, Rung: c.Rung, Ladder: steps, MaxAttempts: m.MaxAttempts,
		Now: d.engine.view.clock.now(), ExpiresAt: m.ExpiresAt, Jitter: d.jitter, Random: rand.Float64(),
	})
	s.Verdict, s.Wait, s.Reason = o.Verdict, o.Wait, o.Reason
	s.Attempt = Attempt{
		Number: c.Attempt, At: began, Duration: answer.Took, Status: o.Status,
		Verdict: o.Verdict, Class: o.Class, Error: o.Error,
	}
	if !(c.First && o.Verdict == Delivered) {
		s.Attempt.Excerpt = Excerpt(answer.Body, d.excerpt, own)
	}
}

// tell logs and shows what came of an attempt: each at debug, a death at info.
func (d *deliverer) tell(c Claimed, s Settlement, host string, began time.Time) {
	defer func() {
		if p := recover(); p != nil { // who watches must not end the process
			d.engine.log.Error("observer panicked", "delivery_id", c.ID.String(),
				"err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	level, text := slog.LevelDebug, "attempt finished"
	if s.Verdict == Dead {
		level, text = slog.LevelInfo, "delivery dead"
	}
	ctx := context.Background() // the log's, which nothing ends
	if d.engine.log.Enabled(ctx, level) {
		d.engine.log.LogAttrs(ctx, level, text,
			slog.String("delivery_id", c.ID.String()), slog.Int("attempt", c.Attempt), slog.String("host", host),
			slog.String("verdict", s.Verdict.String()), slog.Int("status", s.Attempt.Status),
			slog.String("reason", string(s.Reason)), slog.Duration("wait", s.Wait),
			slog.Duration("took", s.Attempt.Duration), slog.String("err", s.Attempt.Error))
	}
	if d.observer != nil {
		a := Attempted{ID: c.ID, Host: host, Attempt: s.Attempt, Wait: s.Wait, Reason: s.Reason, Late: max(began.Sub(c.Due), 0)}
		if c.Message != nil {
			a.Topic = c.Message.Topic
		}
		d.observer.Attempted(a)
	}
}

// targets remembers parsed URLs: most messages go where others went.
type targets struct {
	mu    sync.RWMutex // guards known
	known map[string]*url.URL
}

// mostTargets bounds the memory; beyond it everything is forgotten at once,
// which costs one more parsing for each.
const mostTargets = 10_000

func (t *targets) of(raw string) (*url.URL, error) {
	t.mu.RLock()
	u := t.known[raw]
	t.mu.RUnlock()
	if u != nil {
		return u, nil
	}
	u, err := ParseURL(raw)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= mostTargets {
		t.known = map[string]*url.URL{}
	}
	t.known[raw] = u
	return u, nil
}
