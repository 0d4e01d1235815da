package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// What tests do to a fakeQueue, and ask of it.

// set changes the fake while a dispatcher uses it.
func (q *fakeQueue) set(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
}

// lease is when something is leased: each time later, if no time goes by. mu is held.
func (q *fakeQueue) lease() time.Time {
	q.leases++
	return time.UnixMilli(q.leases)
}

// fill makes n deliveries of one lane ready, unheard of by any instance.
func (q *fakeQueue) fill(n int) { q.fillLane("u_0", n) }

func (q *fakeQueue) fillLane(lane d.Lane, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range n {
		m := message(fmt.Sprintf("filled_%d_%d", len(q.calls), i))
		q.ready = append(q.ready, &item{Claimed: d.Claimed{
			ID: d.DeliveryID{Lane: lane, Message: m.ID}, Message: m, Due: q.now(), Attempt: 1, Rung: 1, First: true,
		}})
	}
}

// put makes a delivery ready as it is.
func (q *fakeQueue) put(c d.Claimed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.Due = q.now()
	q.ready = append(q.ready, &item{Claimed: c})
}

func (q *fakeQueue) count(name string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[name]
}

// seen are the calls of one name; of all where it is empty.
func (q *fakeQueue) seen(name string) []call {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(q.calls), func(c call) bool { return name != "" && c.name != name })
}

// outcomes are the settlements that changed something.
func (q *fakeQueue) outcomes() (all []d.Settlement) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range q.settled {
		all = append(all, list...)
	}
	return all
}

// verdicts counts them.
func (q *fakeQueue) verdicts() map[d.Verdict]int {
	n := map[d.Verdict]int{}
	for _, s := range q.outcomes() {
		n[s.Verdict]++
	}
	return n
}

func (q *fakeQueue) places() (due, ready, leased int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.due), len(q.ready), len(q.leased)
}

// fakeSender answers what answer says, or 200 at once.
type fakeSender struct {
	forget bool // keeps no calls
	answer func(ctx context.Context, c d.Call) d.Answer

	mu    sync.Mutex // guards calls
	calls []d.Call
}

func (s *fakeSender) Send(ctx context.Context, c d.Call) d.Answer {
	if !s.forget {
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.mu.Unlock()
	}
	if s.answer != nil {
		return s.answer(ctx, c)
	}
	return d.Answer{Status: 200}
}

func (s *fakeSender) sent() []d.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// takes answers 200 after a time, or nothing when the call is cut.
func takes(wait time.Duration) func(context.Context, d.Call) d.Answer {
	return func(ctx context.Context, _ d.Call) d.Answer {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return d.Answer{Class: d.ClassTimeout, Err: ctx.Err()}
		case <-timer.C:
			return d.Answer{Status: 200, Took: wait}
		}
	}
}

// rig is a dispatcher with fakes around it.
type rig struct {
	instance
	queue  *fakeQueue
	conn   *fakeConn
	sender *fakeSender
	log    *lockedBuffer
	cancel context.CancelFunc
	ended  chan error
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newTestRig makes a dispatcher that does not run yet.
func newTestRig(t testing.TB, change func(*engine.Options, *fakeQueue, *fakeSender)) *rig {
	t.Helper()
	r := &rig{queue: newFakeQueue(1), sender: &fakeSender{}, log: &lockedBuffer{}}
	o := newTestOptions(t, r.log)
	if change != nil {
		change(&o, r.queue, r.sender)
	}
	r.conn = connect(t, r.queue, o.MaxInFlight)
	r.instance = newTestInstance(t, r.conn, r.sender, o)
	return r
}

// instance is an engine and its endpoints, as an API has them.
type instance struct {
	*engine.Engine
	*endpoints.Registry
}

// Run is the engine's, which runs the endpoints too.
func (i instance) Run(ctx context.Context) error { return i.Engine.Run(ctx) }

func newTestInstance(t testing.TB, q d.Queue, s d.Sender, o engine.Options) instance {
	t.Helper()
	e, err := engine.New(q, s, o)
	require.NoError(t, err)
	return instance{e, e.Registry()}
}

func newTestOptions(t testing.TB, log io.Writer) engine.Options {
	t.Helper()
	steps, err := ladder.New(15*time.Second, 3*time.Minute)
	require.NoError(t, err)
	return engine.Options{
		Instance: "here", Secrets: []signer.Secret{signer.NewSecret()}, Ladder: steps, Timeout: 15 * time.Second,
		MaxInFlight: 1024, ClaimBatch: 64, Excerpt: 1024, PollEvery: time.Minute, Grace: 20 * time.Second,
		UserAgent: "Hookladder/test", Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

// Note is an answer that tells what a partition has to do.
func (r *rig) Note(h ...queuetest.Hint) { r.conn.answered(h) }

// start runs it and waits until it has nothing to do. Inside a bubble only.
func (r *rig) start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel, r.ended = cancel, make(chan error, 1)
	go func() { r.ended <- r.Run(ctx); close(r.ended) }()
	t.Cleanup(func() { // a test that failed leaves nothing behind
		cancel()
		<-r.ended
	})
	synctest.Wait()
}

// stop ends it in order.
func (r *rig) stop(t testing.TB) {
	t.Helper()
	r.cancel()
	require.NoError(t, <-r.ended)
}

// pass lets simulated time go by, and what happens then come to rest.
func pass(wait time.Duration) {
	time.Sleep(wait)
	synctest.Wait()
}

func message(id string) *d.Message {
	return &d.Message{ID: id, Topic: "payment.captured", URL: "https://shop.example/hook", Body: []byte(`{}`), ContentType: "application/json"}
}

func messages(prefix string, n int) (list []*d.Message) {
	for i := range n {
		list = append(list, message(fmt.Sprintf("%s_%d", prefix, i)))
	}
	return list
}

func mustSuccess(t testing.TB, text string) *success.Rule {
	t.Helper()
	s, err := success.Parse(text)
	require.NoError(t, err, text)
	return s
}
