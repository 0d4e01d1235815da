package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

// once has a handler do something at its first call only.
func once(first func() error) queue.HandlerFunc {
	var called atomic.Bool
	return func(context.Context, queue.Delivery) error {
		if called.Swap(true) {
			return nil
		}
		return first()
	}
}

func TestWhatAHandlerMakesOfADelivery(t *testing.T) {
	broken := errors.New("no stock")
	for name, c := range map[string]struct {
		first    func() error
		status   dispatcher.Status
		attempts int
		class    dispatcher.Class
		says     []string
	}{
		"an error is a failed attempt": {
			func() error { return broken }, dispatcher.StatusDelivered, 2, dispatcher.ClassHandler, []string{"no stock"},
		},
		"a panic is one with its stack": {
			func() error { panic("boom") }, dispatcher.StatusDelivered, 2, dispatcher.ClassHandler,
			[]string{"panic: boom\n", "queue_test.TestWhatAHandlerMakesOfADelivery"},
		},
		"nil pointers too": {
			func() error { var o *order; o.Number++; return nil }, dispatcher.StatusDelivered, 2, dispatcher.ClassHandler,
			[]string{"panic: runtime error", "queue_test.TestWhatAHandlerMakesOfADelivery"},
		},
		"the end of its goroutine too": {
			func() error { runtime.Goexit(); return nil }, dispatcher.StatusDelivered, 2, dispatcher.ClassHandler,
			[]string{"ended its goroutine"},
		},
		"one that skips retries is dead": {
			func() error { return fmt.Errorf("order 17: %w", queue.SkipRetry(broken)) }, dispatcher.StatusDead, 1, dispatcher.ClassHandler,
			[]string{"order 17: no stock"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestQueue(t, queue.Options{Ladder: rungs, Workers: 1})
			p.Handle("work", once(c.first))
			p.start(t)
			d := p.ends(t, p.publish(t, queue.Task{}).ID)
			require.Equal(t, c.status, d.Status)
			require.Equal(t, c.attempts, d.Attempts)
			require.Equal(t, c.class, d.History[0].Class)
			for _, text := range c.says {
				require.Contains(t, d.History[0].Error, text)
			}
			require.NotContains(t, d.History[0].Error, "debug.Stack")
			if c.status == dispatcher.StatusDead {
				require.Equal(t, dispatcher.ReasonRejected, d.Reason)
			}
			next := p.ends(t, p.publish(t, queue.Task{}).ID)
			require.Equal(t, dispatcher.StatusDelivered, next.Status, "its worker goes on")
		})
	}
}

func TestAHandlerSaysWhenToComeAgain(t *testing.T) {
	p := newTestQueue(t, queue.Options{Ladder: []time.Duration{time.Hour}})
	p.Handle("work", once(func() error { return queue.RetryAfter(10*time.Millisecond, errors.New("locked")) }))
	p.Handle("far", func(context.Context, queue.Delivery) error { return queue.RetryAfter(48*time.Hour, nil) })
	p.start(t)
	d := p.ends(t, p.publish(t, queue.Task{}).ID)
	require.Equal(t, dispatcher.StatusDelivered, d.Status)
	require.Equal(t, "locked", d.History[0].Error)
	id := p.publish(t, queue.Task{Queue: "far"}).ID
	d = p.delivery(t, id, func(d dispatcher.Delivery) bool { return d.Attempts == 1 })
	require.WithinRange(t, d.Due, d.History[0].At.Add(48*time.Hour-time.Second), d.History[0].At.Add(48*time.Hour+patience))
	require.Contains(t, d.History[0].Error, "requested a retry")
}

func TestOfNothingItIsNothing(t *testing.T) {
	require.NoError(t, queue.SkipRetry(nil))
	require.ErrorIs(t, queue.SkipRetry(context.Canceled), context.Canceled)
	require.ErrorIs(t, queue.RetryAfter(time.Second, context.Canceled), context.Canceled)
}

func TestABodyThatCantBeReadIsDeadAtOnce(t *testing.T) {
	p := newTestQueue(t, queue.Options{})
	queue.Handle(p.Queue, "work", func(context.Context, order, queue.Delivery) error { return nil })
	p.start(t)
	for body, says := range map[string]string{
		`{"Number":"secret17"}`: "the body can't be read as queue_test.order: Number: a JSON string is no int",
		`[4711]`:                "the body can't be read as queue_test.order: a JSON array is no queue_test.order",
		`{"Number":4711.5}`:     "the body can't be read as queue_test.order: Number: a JSON number is no int",
		`secret`:                "the body can't be read as queue_test.order: it is not JSON at byte 1",
		``:                      "the body can't be read as queue_test.order: it is not JSON at byte 0",
	} {
		d := p.ends(t, p.publish(t, queue.Task{Raw: []byte(body)}).ID)
		require.Equal(t, dispatcher.StatusDead, d.Status, body)
		require.Equal(t, dispatcher.ReasonRejected, d.Reason)
		require.Equal(t, 1, d.Attempts)
		require.Equal(t, says, d.LastError)
	}
}

func TestATypeThatDecodesItselfIsNotQuotedEither(t *testing.T) {
	at := queue.Typed(func(context.Context, struct{ At time.Time }, queue.Delivery) error { return nil })
	err := at(t.Context(), queue.Delivery{Body: []byte(`{"At":"secret17"}`)})
	require.ErrorIs(t, err, queue.ErrSkipRetry)
	require.EqualError(t, err, "the body can't be read as struct { At time.Time }: a type that decodes itself refused its value (*time.ParseError)")
}

func TestAHandlerThatHeedsItsDeadlineTellsMore(t *testing.T) {
	p := newTestQueue(t, queue.Options{MaxAttempts: 1, AttemptTimeout: time.Second})
	p.Handle("work", func(ctx context.Context, _ queue.Delivery) error {
		<-ctx.Done()
		return fmt.Errorf("ask the bank: %w", ctx.Err())
	})
	p.start(t)
	d := p.ends(t, p.publish(t, queue.Task{}).ID)
	require.Equal(t, dispatcher.ReasonExhausted, d.Reason, "an empty ladder has one attempt")
	require.Equal(t, dispatcher.ClassTimeout, d.History[0].Class)
	require.Equal(t, "ask the bank: context deadline exceeded", d.LastError)
}

func TestAHandlerIsRegisteredOnceBeforeRunUnderAGoodName(t *testing.T) {
	p := newTestQueue(t, queue.Options{})
	h := func(context.Context, queue.Delivery) error { return nil }
	p.Handle("work", h)
	refuses := func(says string, do func()) {
		t.Helper()
		defer func() { require.Contains(t, fmt.Sprint(recover()), says) }()
		do()
	}
	refuses(`Handle("work"): it has a handler already`, func() { p.Handle("work", h) })
	refuses(`Handle("other"): no handler`, func() { p.Handle("other", nil) })
	refuses(`Handle("other"): no handler`, func() { queue.Handle[order](p.Queue, "other", nil) })
	for _, name := range []string{"", "a b", "q_work", "ep_1", "u_x", strings.Repeat("a", 65), "a:b"} {
		refuses("the name must be 1 to 64 of", func() { p.Handle(name, h) })
	}
	p.start(t)
	p.ends(t, p.publish(t, queue.Task{}).ID)
	refuses(`Handle("late"): it comes after Run or Close`, func() { p.Handle("late", h) })
	require.ErrorContains(t, p.Run(t.Context()), "called before")
	p.end(t)
	refuses(`Handle("late"): it comes after Run or Close`, func() { p.Handle("late", h) })
}
