package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// fakeOutbox is an outbox in memory. The test uses it while the relay sleeps; the fence lets
// the race detector see that.
type fakeOutbox struct {
	mu sync.Mutex // see fence

	rows      []*fakeRow
	rejected  map[string]string // problem by id
	asleep    bool
	notified  chan struct{}
	err       error                           // of all calls
	refuses   func([]dispatcher.RowFate) bool // a batch that is refused
	batches   []int                           // sizes of the batches
	busy      bool
	oldestAge int64
}

func (f *fakeOutbox) fence() {
	f.mu.Lock()
	f.mu.Unlock() //nolint:staticcheck // SA2001: nothing is guarded, it orders what was done before
}

type fakeRow struct {
	dispatcher.OutboxRow
	at, retryAt time.Time
}

// put publishes as a caller's committed transaction does.
func (f *fakeOutbox) put(id string, m map[string]any) {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // a map of texts
	}
	seq := int64(len(f.rows) + 1)
	for _, r := range f.rows {
		seq = max(seq, r.Seq+1)
	}
	key, _ := m["ordering_key"].(string)
	f.rows = append(f.rows, &fakeRow{OutboxRow: dispatcher.OutboxRow{Seq: seq, ID: id, Message: text, Body: []byte("1"), Key: key}, at: time.Now()})
	if f.asleep {
		select {
		case f.notified <- struct{}{}:
		default:
		}
	}
}

func (f *fakeOutbox) Relay(ctx context.Context, most int, carry func(context.Context, dispatcher.OutboxBatch) (dispatcher.OutboxDone, error)) error {
	f.fence()
	defer f.fence()
	if f.err != nil || f.busy {
		return cmp.Or(f.err, dispatcher.ErrOutboxBusy)
	}
	b := dispatcher.OutboxBatch{Asleep: f.asleep}
	keys := map[string]bool{}
	for _, r := range f.rows {
		if now := time.Now(); !r.retryAt.After(now) && len(b.Rows) < most {
			row := r.OutboxRow
			row.Age = now.Sub(r.at)
			b.Rows = append(b.Rows, row)
			keys[r.Key] = r.Key != ""
		}
	}
	for _, r := range f.rows {
		if wait := time.Until(r.retryAt); wait > 0 && keys[r.Key] {
			row := r.OutboxRow
			row.Wait, row.Body = wait, []byte("null")
			b.Waiting = append(b.Waiting, row)
		}
	}
	f.batches = append(f.batches, len(b.Rows))
	done, err := carry(ctx, b)
	if err != nil {
		return err
	}
	if f.refuses != nil && f.refuses(done.Fates) {
		return fmt.Errorf("%w: bad data", dispatcher.ErrOutboxData)
	}
	for _, fate := range done.Fates {
		at := slices.IndexFunc(f.rows, func(r *fakeRow) bool { return r.Seq == fate.Seq })
		switch fate.Result {
		case dispatcher.RowWaits:
			f.rows[at].retryAt = time.Now().Add(fate.Wait)
			continue
		case dispatcher.RowRejected:
			f.rejected[f.rows[at].ID] = string(fate.Problem)
		}
		f.rows = slices.Delete(f.rows, at, at+1)
	}
	f.asleep = f.asleep && !done.Awake
	return nil
}

func (f *fakeOutbox) State(context.Context) (state dispatcher.OutboxState, err error) {
	f.fence()
	defer f.fence()
	state.Asleep = f.asleep
	for _, r := range f.rows {
		state.Due = state.Due || !r.retryAt.After(time.Now())
		state.Oldest = max(state.Oldest, time.Since(r.at))
	}
	return state, f.err
}

func (f *fakeOutbox) Sleep(context.Context) error {
	f.fence()
	defer f.fence()
	f.asleep = true
	return f.err
}

func (f *fakeOutbox) Wait(ctx context.Context, most time.Duration) error {
	f.fence()
	defer f.fence()
	select {
	case <-ctx.Done():
	case <-f.notified:
	case <-time.After(most):
	}
	return f.err
}

func (f *fakeOutbox) OldestTransaction(context.Context) (age, pid int64, err error) {
	return f.oldestAge, 7, nil
}
func (f *fakeOutbox) Close() {}

// fakePublisher takes messages, but for those that it is told to refuse.
type fakePublisher struct {
	taken   []string           // ids, in the order in which they were accepted
	batches [][]string         // ids of each Publish
	refuses map[string]int     // status by id
	known   map[string]bool    // ids that were taken
	away    bool               // it takes nothing
	during  func(ids []string) // while it publishes
}

func (e *fakePublisher) Publish(ctx context.Context, batch []*dispatcher.Message) (out []dispatcher.Published, err error) {
	var ids []string
	for _, m := range batch {
		ids = append(ids, m.ID)
		p := dispatcher.Published{Result: dispatcher.Accepted, Deliveries: make([]dispatcher.Delivery, 1)}
		if m.Tenant == "unmatched" {
			p.Deliveries = nil
		}
		switch status := e.refuses[m.ID]; {
		case e.away:
			p = dispatcher.Published{Err: dispatcher.ErrUnavailable}
		case status == 503:
			p = dispatcher.Published{Err: dispatcher.ErrUnavailable}
		case status == 429:
			p.Result = dispatcher.LaneFull
		case status != 0:
			p.Result = dispatcher.Conflict
		case e.known[m.ID]:
			p.Result = dispatcher.Duplicate
		default:
			e.taken = append(e.taken, m.ID)
			e.known[m.ID] = true
		}
		if m.Endpoint != "" {
			m.Endpoint = "ep_of_" + m.Endpoint // as the engine does with a uid
		}
		out = append(out, p)
	}
	e.batches = append(e.batches, ids)
	if e.during != nil {
		e.during(ids)
	}
	return out, ctx.Err()
}

func judge(p *dispatcher.Published) engine.RowRefusal {
	switch {
	case p.Err != nil:
		return engine.RowRefusal{Status: 503}
	case p.Result == dispatcher.LaneFull:
		return engine.RowRefusal{Status: 429}
	case p.Result == dispatcher.Conflict:
		return engine.RowRefusal{Status: 409, Problem: []byte("conflict")}
	}
	return engine.RowRefusal{Status: 202}
}

func read(r *dispatcher.OutboxRow) (*dispatcher.Message, engine.RowRefusal) {
	var m struct {
		Endpoint, URL, Queue, Tenant string
		Key                          string `json:"ordering_key"`
		Bad                          string
	}
	if err := json.Unmarshal(r.Message, &m); err != nil || m.Bad != "" || r.Body == nil {
		return nil, engine.RowRefusal{Status: 422, Problem: []byte("bad")}
	}
	return &dispatcher.Message{ID: r.ID, Endpoint: m.Endpoint, URL: m.URL, Queue: m.Queue, Tenant: m.Tenant, OrderingKey: m.Key}, engine.RowRefusal{}
}

// relayRig is a relay between fakes.
type relayRig struct {
	outbox *fakeOutbox
	engine *fakePublisher
	log    bytes.Buffer
	relay  *engine.Relay
}

// relaying runs a relay in a bubble in which time is simulated, for so long.
func relaying(t *testing.T, set func(*relayRig), d time.Duration, then func(*relayRig)) *relayRig {
	t.Helper()
	r := &relayRig{
		outbox: &fakeOutbox{rejected: map[string]string{}},
		engine: &fakePublisher{refuses: map[string]int{}, known: map[string]bool{}},
	}
	synctest.Test(t, func(t *testing.T) {
		r.outbox.notified = make(chan struct{}, 1)
		r.relay = engine.NewRelay(engine.RelayOptions{
			Outbox: r.outbox, Read: read, Publish: r.engine.Publish, Judge: judge, Retention: 24 * time.Hour, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		})
		set(r)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.relay.Run(ctx) }()
		r.pass(d)
		if then != nil {
			then(r)
		}
		stop()
		require.NoError(t, <-done)
		time.Sleep(time.Minute) // what it left behind ends
	})
	return r
}

func (r *relayRig) left() (ids []string) {
	for _, row := range r.outbox.rows {
		ids = append(ids, row.ID)
	}
	return ids
}

// pass lets time pass, until nothing is done any more.
func (r *relayRig) pass(d time.Duration) {
	r.outbox.fence()
	time.Sleep(d)
	synctest.Wait()
	r.outbox.fence()
}

func none(*relayRig) {}
