package queue_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

// reporting is a handler that reports each call.
func reporting(to chan<- queue.Delivery) queue.HandlerFunc {
	return func(_ context.Context, d queue.Delivery) error {
		to <- d
		return nil
	}
}

func TestProgramsWithOtherHandlersShareAProjectAndAnUnknownQueueWaits(t *testing.T) {
	url := redistest.Start(t).URL()
	first, second := newTestProgram(t, url, queue.Options{}), newTestProgram(t, url, queue.Options{})
	got := map[string]chan queue.Delivery{"mail": make(chan queue.Delivery, 9), "bills": make(chan queue.Delivery, 9), "later": make(chan queue.Delivery, 9)}
	first.Handle("mail", reporting(got["mail"]))
	second.Handle("bills", reporting(got["bills"]))
	first.start(t)
	second.start(t)
	var ids []string
	for range 3 {
		for name := range got {
			pub := first.publish(t, queue.Task{Queue: name})
			ids = append(ids, pub.ID)
			require.Equal(t, dispatcher.StatusReady, pub.Deliveries[0].Status)
		}
	}
	for range 3 {
		require.Equal(t, "mail", receive(t, got["mail"]).Queue)
		require.Equal(t, "bills", receive(t, got["bills"]).Queue)
	}
	require.Empty(t, got["later"])
	third := newTestProgram(t, url, queue.Options{})
	third.Handle("later", reporting(got["later"]))
	third.start(t)
	for _, id := range ids {
		d := third.ends(t, id)
		require.Equal(t, dispatcher.StatusDelivered, d.Status)
		require.Equal(t, 1, d.Attempts)
	}
}

func TestALongNameAndALongBodyAreHandledToo(t *testing.T) {
	p := newTestQueue(t, queue.Options{})
	name := strings.Repeat("long.", 12)
	got := make(chan queue.Delivery, 9)
	p.Handle(name, reporting(got))
	p.start(t)
	body := []byte(strings.Repeat("x", 200<<10))
	p.publish(t, queue.Task{Queue: name, Raw: body})
	d := receive(t, got)
	require.Equal(t, body, d.Body)
	require.Equal(t, "application/octet-stream", d.ContentType)
	require.Equal(t, name, d.Queue)
}

func TestThoseOfOneOrderingKeyAreHandledOneAtATimeInOrder(t *testing.T) {
	p := newTestQueue(t, queue.Options{Ladder: rungs})
	var mu sync.Mutex
	var running atomic.Int32
	var order []string
	p.Handle("work", func(_ context.Context, d queue.Delivery) error {
		if running.Add(1) != 1 {
			t.Error("two at a time")
		}
		defer running.Add(-1)
		if d.Attempt == 1 {
			return fmt.Errorf("again")
		}
		mu.Lock()
		defer mu.Unlock()
		order = append(order, d.MessageID)
		return nil
	})
	p.start(t)
	var want []string
	for i := range 10 {
		want = append(want, p.publish(t, queue.Task{ID: fmt.Sprintf("m%d", i), OrderingKey: "account"}).ID)
	}
	for _, id := range want {
		require.Equal(t, dispatcher.StatusDelivered, p.ends(t, id).Status)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, want, order)
}

func TestADelayIsKeptAndACancelledOneIsNotHandled(t *testing.T) {
	p := newTestQueue(t, queue.Options{})
	got := make(chan queue.Delivery, 9)
	p.Handle("work", reporting(got))
	p.start(t)
	pub := p.publish(t, queue.Task{ID: "soon", Delay: 300 * time.Millisecond})
	require.Equal(t, dispatcher.StatusScheduled, pub.Deliveries[0].Status)
	p.publish(t, queue.Task{ID: "never", Delay: 200 * time.Millisecond})
	require.NoError(t, p.Cancel(t.Context(), "never"))
	require.ErrorIs(t, p.Cancel(t.Context(), "unknown"), queue.ErrNotFound)
	require.Equal(t, "soon", receive(t, got).MessageID)
	d := p.ends(t, "soon")
	require.False(t, d.Ended.Before(pub.CreatedAt.Add(300*time.Millisecond)), "never early")
	require.Equal(t, dispatcher.StatusCancelled, p.ends(t, "never").Status)
}

// TestSlowHandlersLeaveWorkersToOthers has handlers of one queue that never end beside
// another queue.
func TestSlowHandlersLeaveWorkersToOthers(t *testing.T) {
	p := newTestQueue(t, queue.Options{Workers: 8, Grace: -1})
	p.Handle("slow", func(ctx context.Context, _ queue.Delivery) error {
		<-ctx.Done()
		return ctx.Err()
	})
	p.Handle("quick", func(context.Context, queue.Delivery) error { return nil })
	for range 50 {
		p.publish(t, queue.Task{Queue: "slow", Timeout: time.Minute})
	}
	p.start(t)
	for range 20 {
		require.Equal(t, dispatcher.StatusDelivered, p.ends(t, p.publish(t, queue.Task{Queue: "quick"}).ID).Status)
	}
}

func TestAStopLetsHandlersFinish(t *testing.T) {
	url := redistest.Start(t).URL()
	p := newTestProgram(t, url, queue.Options{})
	begun, release := make(chan struct{}, 1), make(chan struct{})
	p.Handle("work", func(ctx context.Context, _ queue.Delivery) error {
		begun <- struct{}{}
		<-release
		return ctx.Err()
	})
	p.start(t)
	id := p.publish(t, queue.Task{}).ID
	receive(t, begun)
	p.stop()
	later, err := p.Publish(t.Context(), queue.Task{Topic: "test", Queue: "work"})
	require.NoError(t, err, "it still accepts")
	close(release)
	p.end(t)
	_, err = p.Publish(t.Context(), queue.Task{Topic: "test", Queue: "work"})
	require.ErrorIs(t, err, queue.ErrClosed)
	other := newTestProgram(t, url, queue.Options{})
	require.Equal(t, dispatcher.StatusDelivered, other.ends(t, id).Status)
	require.Equal(t, dispatcher.StatusReady, other.delivery(t, later.ID, func(dispatcher.Delivery) bool { return true }).Status, "nothing more was taken")
}

func verdicts(d dispatcher.Delivery) (all []dispatcher.Verdict) {
	for _, a := range d.History {
		all = append(all, a.Verdict)
	}
	return all
}

func TestWhatAStopCutsGoesBackAndNoRungIsSpent(t *testing.T) {
	for name, heeds := range map[string]bool{"a handler that heeds its context": true, "one that does not": false} {
		t.Run(name, func(t *testing.T) {
			url := redistest.Start(t).URL()
			p := newTestProgram(t, url, queue.Options{Grace: -1, Ladder: rungs})
			begun, release := make(chan struct{}, 1), make(chan struct{})
			defer close(release)
			p.Handle("work", func(ctx context.Context, _ queue.Delivery) error {
				begun <- struct{}{}
				<-ctx.Done()
				if !heeds {
					<-release
				}
				return ctx.Err()
			})
			p.start(t)
			id := p.publish(t, queue.Task{}).ID
			receive(t, begun)
			p.end(t)
			other := newTestProgram(t, url, queue.Options{})
			got := make(chan queue.Delivery, 1)
			other.Handle("work", reporting(got))
			other.start(t)
			require.Equal(t, 1, receive(t, got).Attempt)
			d := other.ends(t, id)
			require.Equal(t, 1, d.Attempts)
			require.Equal(t, []dispatcher.Verdict{dispatcher.Delivered}, verdicts(d))
		})
	}
}

func TestNoGoroutineIsLeftAfterTheEnd(t *testing.T) {
	url := redistest.Start(t).URL()
	p := newTestProgram(t, url, queue.Options{})
	got := make(chan queue.Delivery, 99)
	p.Handle("work", reporting(got))
	p.start(t)
	for range 50 {
		p.publish(t, queue.Task{})
	}
	for range 50 {
		receive(t, got)
	}
	p.end(t)
	only := newTestProgram(t, url, queue.Options{})
	only.publish(t, queue.Task{})
	require.NoError(t, only.Close())
	require.NoError(t, only.Close(), "again")
	text := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
		if strings.Contains(stack, "hookladder/dispatcher/") && !strings.Contains(stack, "testing.tRunner") {
			t.Error(stack)
		}
	}
}

func TestFewWorkersHandleAllThatWaited(t *testing.T) {
	p := newTestQueue(t, queue.Options{Workers: 2})
	var ids []string
	for range 30 {
		ids = append(ids, p.publish(t, queue.Task{}).ID)
	}
	p.Handle("work", func(context.Context, queue.Delivery) error { return nil })
	p.start(t)
	for _, id := range ids {
		require.Equal(t, dispatcher.StatusDelivered, p.ends(t, id).Status)
	}
}
