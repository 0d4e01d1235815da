package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
)

// deliverer makes attempts: it signs, sends, has the answer judged, and gives
// the outcome to the settler.
type deliverer struct {
	engine  *Engine
	sender  dispatcher.Sender
	signers atomic.Pointer[signers] // of bare URLs; nil: there is no secret, and nothing is sent to one
	ladder  ladder.Ladder
	jitter  float64
	success *success.Rule
	timeout time.Duration
	excerpt int
	agent   []string // the user-agent header's values, shared by all calls
	targets targets
	cut     context.Context // ends when attempts may no longer go on
}

// deliver makes one attempt. The permit is given back when the answer is there,
// before it is settled.
func (d *deliverer) deliver(c dispatcher.Claimed) {
	s := dispatcher.Settlement{ID: c.ID, Due: c.Due, First: c.First, Leased: c.Leased}
	began := d.engine.queue.Now()
	var r route
	if c.Message == nil || c.Message.Success.Check() != nil {
		// A record that can't be read would kill each instance that reads it. No attempt has that number.
		s.Verdict, s.Reason = dispatcher.Dead, dispatcher.ReasonPoison
		s.Attempt = dispatcher.Attempt{At: began, Verdict: dispatcher.Dead, Class: dispatcher.ClassInternal, Error: errRecord.Error()}
	} else if !d.engine.alive(d.engine.identity.Load()) {
		s.Verdict = dispatcher.Back // this process stood still since, and others may have it by now
	} else {
		r = d.guarded(c, began, &s)
	}
	d.engine.loader.done(&c)
	d.engine.permits.release(1)
	if !(c.First && s.Verdict == dispatcher.Delivered) {
		s.Attempt.Excerpt = dispatcher.Excerpt(r.body, d.excerpt, r.secrets) // without a permit: answer and secrets may be long
	}
	if s.Reason == dispatcher.ReasonGone && r.endpoint != nil {
		// Before its outcome is recorded: else it would not be done if this process ended now.
		d.engine.endpoints.DisableGone(r.endpoint)
	}
	s.Host = r.host()
	d.engine.settler.put(s)
	if s.Verdict != dispatcher.Back {
		d.tell(c, s, began)
	}
}

// What keeps an attempt from being made; for the message's history. Most are
// refused when a message is published: something has changed since.
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

// guarded makes an attempt of which a fault in our own code costs one rung, and
// not the process with all that it holds.
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

// fail records an attempt that was our own fault; the ladder decides what follows.
func (d *deliverer) fail(c dispatcher.Claimed, r route, began time.Time, s *dispatcher.Settlement, err error) {
	took := max(d.engine.queue.Now().Sub(began), 0)
	d.judge(c, r, dispatcher.Answer{Class: dispatcher.ClassInternal, Err: err, Took: took}, began, s)
}

// attempt fills in the settlement and answers which way it went.
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
		d.fail(c, r, began, s, errSuccess)
		return r
	case err != nil:
		d.fail(c, r, began, s, err)
		return r
	case !m.ExpiresAt.IsZero() && !began.Before(m.ExpiresAt):
		// It expired since it was claimed, while it waited for a worker.
		d.judge(c, r, dispatcher.Answer{Class: dispatcher.ClassExpired}, began, s)
		s.Attempt.Number = 0 // none was made
		return r
	}
	header := d.headers(c, began, &r)
	if header == nil {
		d.fail(c, r, began, s, errUnsignable)
		return r
	}
	ctx, cancel := context.WithTimeout(d.cut, r.timeout)
	defer cancel()
	answer := d.sender.Send(ctx, dispatcher.Call{URL: r.url, Header: header, Body: m.Body, Lane: c.ID.Lane})
	if answer.Status == 0 && d.cut.Err() != nil {
		s.Verdict = dispatcher.Back
		return r
	}
	if answer.Status == 0 && errors.Is(answer.Err, dispatcher.ErrExhausted) {
		d.engine.shortage.note(answer.Err)
		s.Verdict = dispatcher.Back
		return r
	}
	d.judge(c, r, answer, began, s)
	r.body = answer.Body
	return r
}

func (d *deliverer) judge(c dispatcher.Claimed, r route, answer dispatcher.Answer, began time.Time, s *dispatcher.Settlement) {
	m := c.Message
	if answer.Location != "" {
		answer.Location = string(dispatcher.Excerpt([]byte(answer.Location), len(answer.Location), r.secrets))
	}
	o := dispatcher.Judge(dispatcher.Case{
		Answer: answer, Success: r.success, Rung: c.Rung, Ladder: r.ladder, MaxAttempts: m.MaxAttempts, WaitsOn: c.WaitsOn,
		Now: d.engine.queue.Now(), ExpiresAt: m.ExpiresAt, Jitter: d.jitter, Random: rand.Float64(),
	})
	s.Verdict, s.Wait, s.Reason, s.Blame, s.Pause = o.Verdict, o.Wait, o.Reason, o.Blame, o.Pause
	s.Attempt = dispatcher.Attempt{
		Number: c.Attempt, At: began, Duration: answer.Took, Status: o.Status,
		Verdict: o.Verdict, Class: o.Class, Error: o.Error,
	}
}

// tell logs and shows what came of an attempt. What becomes of its delivery only
// the queue can tell.
func (d *deliverer) tell(c dispatcher.Claimed, s dispatcher.Settlement, began time.Time) {
	ctx := context.Background() // the log's, which nothing ends
	if d.engine.log.Enabled(ctx, slog.LevelDebug) {
		d.engine.log.LogAttrs(ctx, slog.LevelDebug, "attempt finished",
			slog.String("delivery_id", c.ID.String()), slog.Int("attempt", c.Attempt), slog.String("host", s.Host),
			slog.String("verdict", s.Verdict.String()), slog.Int("status", s.Attempt.Status),
			slog.String("reason", string(s.Reason)), seconds("wait_s", s.Wait),
			slog.Float64("took_ms", float64(s.Attempt.Duration.Microseconds())/1000), slog.String("err", s.Attempt.Logged()))
	}
	d.engine.watching.tell(func(o dispatcher.Observer) {
		a := dispatcher.Attempted{ID: c.ID, Host: s.Host, Attempt: s.Attempt, Wait: s.Wait, Reason: s.Reason, Late: lateness(c, began)}
		if c.Message != nil {
			a.Topic = c.Message.Topic
			a.Since = tookInAll(c, &s)
		}
		o.Attempted(a)
	})
}

// lateness is how long after it was due an attempt began. Nothing is due before
// it was accepted.
func lateness(c dispatcher.Claimed, began time.Time) time.Duration {
	due := c.Due
	if c.Message != nil && c.Message.CreatedAt.After(due) {
		due = c.Message.CreatedAt
	}
	return max(began.Sub(due), 0)
}

// tookInAll is how long it took until a delivery was delivered; 0: it was not, or
// a person asked for one of its attempts.
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
