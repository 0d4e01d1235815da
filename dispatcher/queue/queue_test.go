package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

// patience is how long a test waits for what has to come.
const patience = kit.Patience

// rungs are a ladder of short waits.
var rungs = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}

// program is one that uses the package.
type program struct {
	*queue.Queue
	url   string
	stop  context.CancelFunc
	ended chan error
}

// newTestProgram opens a queue, which is closed with the test.
func newTestProgram(t testing.TB, url string, o queue.Options) *program {
	t.Helper()
	q, err := queue.Open(t.Context(), url, o)
	require.NoError(t, err)
	p := &program{Queue: q, url: url, ended: make(chan error, 1), stop: func() {}}
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return p
}

var projects atomic.Int64

// newTestQueue opens a queue with a project of its own, on the server of all tests.
func newTestQueue(t testing.TB, o queue.Options) *program {
	t.Helper()
	o.Project = fmt.Sprint("test", projects.Add(1))
	return newTestProgram(t, redistest.Share(t).URL(), o)
}

// start has it handle, until the test ends.
func (p *program) start(t testing.TB) *program {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() { p.ended <- p.Run(ctx) }()
	t.Cleanup(func() { p.end(t) })
	return p
}

// end has Run end, and waits for that.
func (p *program) end(t testing.TB) {
	t.Helper()
	p.stop()
	select {
	case err := <-p.ended:
		require.NoError(t, err)
		p.ended <- nil
	case <-time.After(patience):
		t.Fatal("Run did not end")
	}
}

// publish publishes to a queue.
func (p *program) publish(t testing.TB, m queue.Task) queue.Published {
	t.Helper()
	if m.Topic == "" {
		m.Topic = "test"
	}
	if m.Queue == "" {
		m.Queue = "work"
	}
	pub, err := p.Publish(t.Context(), m)
	require.NoError(t, err)
	return pub
}

// delivery waits until the only delivery of a message is as asked for.
func (p *program) delivery(t testing.TB, id string, is func(dispatcher.Delivery) bool) (d dispatcher.Delivery) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	require.NoError(t, kit.Until(ctx, "the delivery of "+id, func() error {
		view, err := p.Read(ctx, id)
		if err != nil {
			return err
		}
		if d = view.Deliveries[0]; !is(d) {
			return fmt.Errorf("it is %s after %d attempts: %s", d.Status, d.Attempts, d.LastError)
		}
		return nil
	}))
	return d
}

func (p *program) ends(t testing.TB, id string) dispatcher.Delivery {
	t.Helper()
	return p.delivery(t, id, func(d dispatcher.Delivery) bool { return d.Status.Ended() })
}

// receive waits for what a handler tells.
func receive[T any](t testing.TB, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatal("it did not come")
	}
	return got
}

type order struct{ Number int }

func TestAHandlerGetsWhatWasPublished(t *testing.T) {
	for _, poll := range []bool{false, true} {
		t.Run(fmt.Sprintf("poll %t", poll), func(t *testing.T) {
			p := newTestQueue(t, queue.Options{Poll: poll})
			got := make(chan queue.Delivery, 1)
			read := make(chan order, 1)
			queue.Handle(p.Queue, "orders", func(ctx context.Context, o order, d queue.Delivery) error {
				inside, ok := queue.FromContext(ctx)
				require.True(t, ok)
				require.Equal(t, d, inside)
				until, ok := ctx.Deadline()
				require.True(t, ok)
				require.WithinRange(t, until, time.Now(), time.Now().Add(15*time.Second))
				read <- o
				got <- d
				return nil
			})
			p.start(t)
			pub := p.publish(t, queue.Task{
				Queue: "orders", Topic: "order.unpaid", Tenant: "shop", Subject: "order 17", Body: order{17},
				Headers: map[string]string{"X-From": "here"},
			})
			require.Equal(t, order{17}, receive(t, read))
			d := receive(t, got)
			require.Equal(t, json.RawMessage(`{"Number":17}`), json.RawMessage(d.Body))
			d.Body = nil
			require.Equal(t, queue.Delivery{
				ID: "q_orders:" + pub.ID, MessageID: pub.ID, Queue: "orders", Topic: "order.unpaid", Tenant: "shop", Subject: "order 17",
				Attempt: 1, MaxAttempts: 10, ContentType: "application/json", Headers: map[string]string{"X-From": "here"}, CreatedAt: pub.CreatedAt,
			}, d)
			require.Equal(t, dispatcher.StatusDelivered, p.ends(t, pub.ID).Status)
			_, ok := queue.FromContext(t.Context())
			require.False(t, ok)
			later := p.publish(t, queue.Task{Queue: "orders", Body: order{18}})
			require.Equal(t, order{18}, receive(t, read), "what comes after the first take is found too")
			require.Equal(t, later.ID, receive(t, got).MessageID)
		})
	}
}
