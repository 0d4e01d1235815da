package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// fakeQueue is a store and an engine: lists of what is ready, and what is taken by whom.
type fakeQueue struct {
	t     *engine.Takers
	polls bool
	limit int // deliveries that one Take leases; 0: any number

	mu       sync.Mutex // guards the fields below
	ready    map[d.Lane][]string
	taken    map[d.DeliveryID]d.TakenLease
	ended    map[d.DeliveryID]d.TakenLease // the last leases of what is not taken
	takes    []d.Take
	looks    int
	err      error          // of each call
	taking   func()         // runs during a Take
	unfit    map[string]int // messages that Fit refuses, so often
	finished []string
	results  map[string]d.Settled // what is answered of a message; else SettledOK
	silent   bool                 // outcomes are not recorded
	backs    []string
	statuses map[string]d.Status
	lost     error // of the lane's data
}

const lane d.Lane = "q_orders"

func idOf(message string) d.DeliveryID { return d.DeliveryID{Lane: lane, Message: message} }

func (q *fakeQueue) Polls() bool { return q.polls }

func (q *fakeQueue) Intact(context.Context, ...d.Lane) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

func (q *fakeQueue) Take(_ context.Context, _ string, t d.Take) (out d.Taken, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.Most == 0 {
		q.looks++
		for _, l := range t.Lanes {
			if len(q.ready[l]) > 0 {
				out.More = append(out.More, l)
			}
		}
		return out, q.err
	}
	q.takes = append(q.takes, t)
	if q.taking != nil {
		q.taking()
	}
	if q.err != nil {
		return out, q.err
	}
	for _, l := range t.Lanes {
		n := min(len(q.ready[l]), t.Most)
		if q.limit > 0 {
			n = min(n, q.limit)
		}
		for _, m := range q.ready[l][:n] {
			id := d.DeliveryID{Lane: l, Message: m}
			q.taken[id] = d.TakenLease{ID: id, Token: t.Token, Owner: t.Owner}
			out.Claimed = append(out.Claimed, d.Claimed{ID: id, Attempt: 3, Message: &d.Message{ID: m, Body: []byte("{}")}})
		}
		if q.ready[l] = q.ready[l][n:]; len(q.ready[l]) > 0 {
			out.More = append(out.More, l)
		}
	}
	out.Until = time.Now().Add(t.For)
	return out, nil
}

func (q *fakeQueue) lease(l d.TakenLease, ends bool) (a d.Adopted) {
	kept, there := q.taken[l.ID]
	last, ended := q.ended[l.ID]
	switch {
	case q.err != nil:
		a.Err = q.err
	case ended && l.Token == "" && l.Owner == last.Owner:
		a.Err, a.Attempt = d.ErrNotTaken, 3
	case ended && l.Token == "":
		a.Err = d.ErrNotYours
	case !there || l.Token != "" && l.Token != kept.Token:
		a.Err = d.ErrNotTaken
	case l.Owner != kept.Owner:
		a.Err = d.ErrNotYours
	case ends:
		delete(q.taken, l.ID)
		a.Claimed = &d.Claimed{ID: l.ID, Attempt: 3, Message: &d.Message{ID: l.ID.Message}, Leased: time.UnixMilli(7)}
	}
	return a
}

func (q *fakeQueue) Adopt(_ context.Context, _ string, leases []d.TakenLease) (out []d.Adopted) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range leases {
		out = append(out, q.lease(l, true))
	}
	return out
}

func (q *fakeQueue) Extend(_ context.Context, _ string, leases []d.TakenLease, lasts time.Duration) (out []d.Adopted) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range leases {
		a := q.lease(l, false)
		a.Until = time.Now().Add(lasts)
		out = append(out, a)
	}
	return out
}

func (q *fakeQueue) Read(_ context.Context, id string) (d.MessageView, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if status, ok := q.statuses[id]; ok {
		return d.MessageView{Deliveries: []d.Delivery{{ID: idOf(id), Status: status}}}, nil
	}
	return d.MessageView{}, d.ErrNotFound
}

func (q *fakeQueue) BeginLease(ctx context.Context) (engine.LeaseCall, error) {
	return engine.LeaseCall{Ctx: context.WithoutCancel(ctx), By: "here"}, nil
}

func (q *fakeQueue) BeginRegain(ctx context.Context) (engine.LeaseCall, error) {
	return q.BeginLease(ctx)
}

func (q *fakeQueue) EndLease(_ engine.LeaseCall, _ []d.Claimed, err error) error { return err }

func (q *fakeQueue) Fit(_ context.Context, leased []d.Claimed, _ int) (fit []d.Claimed, unfit []d.Settlement) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range leased {
		if q.unfit[c.ID.Message]--; q.unfit[c.ID.Message] >= 0 {
			unfit = append(unfit, d.Settlement{ID: c.ID, Verdict: d.Back})
		} else {
			fit = append(fit, c)
		}
	}
	return fit, unfit
}

func (q *fakeQueue) Headers(c d.Claimed, _ time.Time) (http.Header, error) {
	if c.ID.Message == "unsignable" {
		return nil, errors.New("it can't be signed")
	}
	return http.Header{"Webhook-Id": {c.ID.Message}}, nil
}

func (q *fakeQueue) Finish(c d.Claimed, h d.Handled, done func(d.Settled)) d.Verdict {
	q.finish(fmt.Sprint(h.Verdict, " ", c.ID.Message), c.ID.Message, done)
	return h.Verdict
}

func (q *fakeQueue) Succeeded(id d.DeliveryID, attempt int, done func(d.Settled)) {
	q.finish(fmt.Sprint("late ", id.Message, " ", attempt), id.Message, done)
}

func (q *fakeQueue) finish(what, message string, done func(d.Settled)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished = append(q.finished, what)
	is, ok := q.results[message]
	if !ok {
		is.Result = d.SettledOK
	}
	if !q.silent {
		done(is)
	}
}

func (q *fakeQueue) Settle(outcomes ...d.Settlement) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := len(outcomes) - 1; i >= 0; i-- {
		o := outcomes[i]
		q.backs = append(q.backs, o.ID.Message)
		q.ready[o.ID.Lane] = append([]string{o.ID.Message}, q.ready[o.ID.Lane]...)
	}
}

func (q *fakeQueue) Now() time.Time { return time.Now() }

// put makes messages ready, and tells of it as the store does.
func (q *fakeQueue) put(lane d.Lane, messages ...string) {
	q.mu.Lock()
	q.ready[lane] = append(q.ready[lane], messages...)
	q.mu.Unlock()
	q.t.OnTakeable([]d.Lane{lane})
}

func (q *fakeQueue) set(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
}

func (q *fakeQueue) asked() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.takes)
}

// inBubble runs takers of a fakeQueue; stop ends them.
func inBubble(t *testing.T, test func(q *fakeQueue, stop func())) {
	t.Helper()
	bubble(t, false, test)
}

func bubble(t *testing.T, polls bool, test func(q *fakeQueue, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{
			polls: polls, ready: map[d.Lane][]string{}, taken: map[d.DeliveryID]d.TakenLease{}, unfit: map[string]int{},
			results: map[string]d.Settled{}, statuses: map[string]d.Status{},
		}
		q.t = engine.NewTakers(q, q, q, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- q.t.Run(ctx) }()
		test(q, cancel)
		cancel()
		require.NoError(t, <-ended)
	})
}

// takerCall is a caller that takes.
type takerCall struct {
	cancel context.CancelFunc
	over   chan struct{}
	given  []d.Given
	err    error
	took   time.Duration
}

func (q *fakeQueue) call(t *testing.T, a d.TakerAsk) *takerCall {
	ctx, cancel := context.WithCancel(context.Background())
	c := &takerCall{cancel: cancel, over: make(chan struct{})}
	if a.Lane == "" {
		a.Lane = lane
	}
	a.Owner, a.For = "me", 30*time.Second
	if a.Most == 0 {
		a.Most = 1
	}
	go func() {
		defer close(c.over)
		defer cancel()
		begin := time.Now()
		c.given, c.err = q.t.Take(ctx, a)
		c.took = time.Since(begin)
	}()
	synctest.Wait()
	return c
}

// answer waits for the answer, and names what was given.
func (c *takerCall) answer(t *testing.T) (ids []string) {
	t.Helper()
	<-c.over
	require.NoError(t, c.err)
	for _, g := range c.given {
		ids = append(ids, g.ID.Message)
	}
	return ids
}

func (c *takerCall) waits() bool {
	synctest.Wait()
	select {
	case <-c.over:
		return false
	default:
		return true
	}
}
