package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// What tests do to a testQueue, and ask of it.

// set changes the fake while a dispatcher uses it.
func (q *testQueue) set(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
}

// fill makes n deliveries of one lane ready, unheard of by any instance.
func (q *testQueue) fill(n int) { q.fillLane("u_0", n) }

func (q *testQueue) fillLane(lane d.Lane, n int) {
	q.mu.Lock()
	k := q.filled
	q.filled += n
	q.mu.Unlock()
	var batch []d.Entry
	for i := range n {
		batch = append(batch, q.entry(lane, message(fmt.Sprintf("filled_%d", k+i))))
	}
	q.schedule(batch...)
}

// later schedules a delivery that no instance was told of.
func (q *testQueue) later(lane d.Lane, id string, wait time.Duration) {
	m := message(id)
	m.Delay = wait
	q.schedule(q.entry(lane, m))
}

// spread makes n deliveries ready, each of a lane of its own. One lane may have
// only so many permits as leave others some.
func (q *testQueue) spread(n int) {
	q.mu.Lock()
	k := q.filled
	q.filled += n
	q.mu.Unlock()
	var batch []d.Entry
	for i := range n {
		batch = append(batch, q.entry(d.Lane(fmt.Sprint("u_", k+i)), message(fmt.Sprintf("filled_%d", k+i))))
	}
	q.schedule(batch...)
}

func (q *testQueue) entry(lane d.Lane, m *d.Message) d.Entry {
	if m.CreatedAt.IsZero() {
		m.CreatedAt = q.now()
	}
	return d.Entry{Message: m, Digest: m.Digest(), Lanes: []d.Lane{lane}}
}

func (q *testQueue) schedule(batch ...d.Entry) {
	for len(batch) > 0 {
		n := min(len(batch), engine.FlushLeast)
		out, err := q.still().Schedule(context.Background(), "quiet", 0, 0, batch[:n])
		require.NoError(q.t, err)
		for _, o := range out {
			require.NoError(q.t, o.Err)
		}
		batch = batch[n:]
	}
}

// put makes a delivery ready as it is.
func (q *testQueue) put(c d.Claimed) {
	m := message(c.ID.Message)
	if c.Message != nil { // else its record can't be read
		*m = *c.Message
		m.ID = c.ID.Message
	}
	q.schedule(q.entry(c.ID.Lane, m))
	done := false
	q.set(func() {
		q.changed[c.ID] = func(got *d.Claimed) {
			if got.Message.Apart == nil {
				got.Message = c.Message
			}
			if done { // its next attempts are as the queue says
				return
			}
			done = true
			got.Attempt, got.Rung, got.First, got.Asked = c.Attempt, c.Rung, c.First, c.Asked
			if c.Version > 0 {
				got.Version = c.Version
			}
		}
	})
}

func (q *testQueue) count(name string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[name]
}

// seen are the calls of one name; of all where it is empty.
func (q *testQueue) seen(name string) []call {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(q.calls), func(c call) bool { return name != "" && c.name != name })
}

// outcomes are the settlements that changed something.
func (q *testQueue) outcomes() (all []d.Settlement) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range q.settled {
		all = append(all, list...)
	}
	return all
}

// verdicts counts them.
func (q *testQueue) verdicts() map[d.Verdict]int {
	n := map[d.Verdict]int{}
	for _, s := range q.outcomes() {
		n[s.Verdict]++
	}
	return n
}

func (q *testQueue) places() (due, ready, leased int) {
	for _, key := range q.Keys() {
		_, name, _ := strings.Cut(key, "}")
		switch {
		case !strings.HasPrefix(key, tagStart):
		case name == keys.Due:
			list, _ := q.ZMembers(key)
			due += len(list)
		case strings.HasPrefix(name, keys.Ready):
			list, _ := q.List(key)
			ready += len(list)
		case strings.HasPrefix(name, keys.Leases):
			list, _ := q.ZMembers(key)
			leased += len(list)
		}
	}
	return due, ready, leased
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
	queue  *testQueue
	conn   *testConn
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
func newTestRig(t testing.TB, change func(*engine.Options, *testQueue, *fakeSender)) *rig {
	t.Helper()
	r := &rig{queue: newTestQueue(t, 1), sender: &fakeSender{}, log: &lockedBuffer{}}
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

// wholeQueue is one store for all that an engine uses.
type wholeQueue interface {
	engine.Deliveries
	engine.Reads
	engine.Instances
	engine.Store
	endpoints.Lanes
	endpoints.LaneReads
}

func newTestInstance(t testing.TB, q wholeQueue, s d.Sender, o engine.Options) instance {
	t.Helper()
	queue := engine.Queue{Deliveries: q, Reads: q, Instances: q, Store: q, Lanes: q, LaneReads: q}
	e, err := engine.New(queue, s, o)
	require.NoError(t, err)
	return instance{e, e.Registry()}
}

func newTestOptions(t testing.TB, log io.Writer) engine.Options {
	t.Helper()
	steps, err := ladder.New(15*time.Second, 3*time.Minute)
	require.NoError(t, err)
	return engine.Options{
		Instance: "here", Secrets: []signer.Secret{signer.NewSecret()}, Ladder: steps, Timeout: 15 * time.Second,
		MaxInFlight: 1024, ClaimBatch: 64, Keep: d.Keep{Finished: time.Hour, FinishedMax: 1e6, SeenMax: 1e6, Dead: time.Hour, DeadMax: 1e6}, Excerpt: 1024, PollEvery: time.Minute, Grace: 20 * time.Second,
		UserAgent: "Hookladder/test", Log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

// Note tells it what there is to do.
func (r *rig) Note() {
	_, err := r.conn.store.Poll(context.Background(), true)
	require.NoError(r.queue.t, err)
}

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

// moment is how exact times are: the queue keeps them in whole milliseconds.
const moment = 2 * time.Millisecond

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
