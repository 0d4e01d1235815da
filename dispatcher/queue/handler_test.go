package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/queue/queuetest"
)

var quiet = queue.Options{Log: slog.New(slog.DiscardHandler)}

// publish publishes a task to a queue in simulated time.
func publish(t *testing.T, q *queue.Queue, m queue.Task) {
	t.Helper()
	if m.Queue == "" {
		m.Queue = "work"
	}
	if m.Topic == "" {
		m.Topic = "test"
	}
	_, err := q.Publish(t.Context(), m)
	require.NoError(t, err)
}

func TestAHandlerKnowsWhereItIsOnItsLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		var mu sync.Mutex
		var got []queue.Delivery
		q.Handle("work", func(_ context.Context, d queue.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, d)
			return fmt.Errorf("no %d", d.Attempt)
		})
		queuetest.Run(t, q)
		expires := time.Now().Add(48 * time.Hour).Truncate(time.Millisecond)
		publish(t, q, queue.Task{ID: "one", Ladder: []time.Duration{time.Minute, time.Hour}, ExpiresAt: expires})
		publish(t, q, queue.Task{ID: "two", Ladder: []time.Duration{time.Minute, time.Hour}, MaxAttempts: 1})
		queuetest.Advance(2 * time.Hour)
		require.Len(t, queuetest.Dead(t, q), 2)
		attempt := 0
		for _, d := range got {
			if d.MessageID == "two" {
				require.Equal(t, 1, d.MaxAttempts)
				require.True(t, d.Last())
				continue
			}
			attempt++
			require.Equal(t, attempt, d.Attempt)
			require.Equal(t, 3, d.MaxAttempts)
			require.Equal(t, attempt == 3, d.Last())
			require.True(t, expires.Equal(d.ExpiresAt))
			require.Equal(t, []string{"", "no 1", "no 2"}[attempt-1], d.LastError)
		}
		require.Equal(t, 3, attempt)
	})
}

func TestASnoozeCountsNoAttemptAndKeepsTheLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		began := time.Now()
		type call struct {
			after            time.Duration
			attempt, snoozes int
			lastError        string
		}
		var got []call
		results := []error{
			queue.Snooze(time.Minute), fmt.Errorf("not yet: %w", queue.Snooze(2*time.Minute)), errors.New("no"), queue.Snooze(time.Hour), nil,
		}
		q.Handle("work", func(_ context.Context, d queue.Delivery) error {
			got = append(got, call{time.Since(began).Round(time.Second), d.Attempt, d.Snoozes, d.LastError})
			return results[len(got)-1]
		})
		queuetest.Run(t, q)
		publish(t, q, queue.Task{ID: "one", Ladder: []time.Duration{10 * time.Minute}})
		queuetest.Advance(3 * time.Hour)
		require.Equal(t, []call{
			{0, 1, 0, ""}, {time.Minute, 1, 1, ""}, {3 * time.Minute, 1, 2, ""}, {13 * time.Minute, 2, 2, "no"}, {73 * time.Minute, 2, 3, "no"},
		}, got)
		for r, err := range q.List(t.Context(), queue.Filter{}) {
			require.NoError(t, err)
			require.Equal(t, dispatcher.StatusDelivered, r.Status)
			require.Equal(t, 2, r.Attempts)
		}
	})
}

func TestASnoozePastTheExpiryEndsTheDeliveryAsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		calls := 0
		q.Handle("work", func(context.Context, queue.Delivery) error {
			calls++
			return queue.Snooze(40 * time.Minute)
		})
		queuetest.Run(t, q)
		publish(t, q, queue.Task{ExpiresAt: time.Now().Add(time.Hour)})
		queuetest.Advance(time.Hour)
		dead := queuetest.Dead(t, q)
		require.Len(t, dead, 1)
		require.Equal(t, dispatcher.ReasonExpired, dead[0].Reason)
		require.Equal(t, "its handler lets it wait until after its message expires", dead[0].LastError)
		require.Equal(t, 2, calls)
	})
}

func TestSnoozeAndRetryErrorsCanBeAskedFor(t *testing.T) {
	var wait *queue.SnoozeError
	require.ErrorAs(t, fmt.Errorf("no payment yet: %w", queue.Snooze(5*time.Minute)), &wait)
	require.Equal(t, 5*time.Minute, wait.After)
	require.EqualError(t, wait, "the handler lets it wait for 5m0s")
	wait = nil
	require.Equal(t, "the handler lets it wait", wait.Error())
}

func TestMiddlewareIsAroundAllHandlersTheFirstOutermost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		var steps []string
		note := func(name string) func(queue.HandlerFunc) queue.HandlerFunc {
			return func(next queue.HandlerFunc) queue.HandlerFunc {
				return func(ctx context.Context, d queue.Delivery) error {
					inside, ok := queue.FromContext(ctx)
					require.True(t, ok)
					require.Equal(t, d, inside)
					steps = append(steps, name)
					err := next(ctx, d)
					steps = append(steps, name+" "+err.Error())
					return queue.SkipRetry(fmt.Errorf("%s %w", name, err))
				}
			}
		}
		q.Use(note("a"), note("b"))
		q.Use(note("c"))
		q.Handle("work", func(context.Context, queue.Delivery) error { return errors.New("no") })
		queuetest.Run(t, q)
		publish(t, q, queue.Task{})
		queuetest.Advance(time.Second)
		require.Equal(t, []string{"a", "b", "c", "c no", "b c no", "a b c no"}, steps)
		dead := queuetest.Dead(t, q)
		require.Len(t, dead, 1)
		require.Equal(t, "a b c no", dead[0].LastError)
		require.PanicsWithValue(t, "queue: Use: it comes after Run or Close", func() { q.Use(note("d")) })
	})
}

func TestWrongMiddlewareAndWorkersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		nothing := func(context.Context, queue.Delivery) error { return nil }
		require.PanicsWithValue(t, "queue: Use: no middleware", func() { q.Use(nil) })
		require.PanicsWithValue(t, `queue: Handle("work"): Workers must be 1 or more`, func() { q.Handle("work", nothing, queue.Workers(0)) })
		require.Panics(t, func() { (*queue.Queue)(nil).Use() })
		q.Handle("work", nothing)
		q.Use(func(queue.HandlerFunc) queue.HandlerFunc { return nil })
		require.EqualError(t, q.Run(t.Context()), "run: a middleware of Use returned no handler")
	})
}

func TestWorkersBoundOneQueueInAProgramAndLeaveTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, queue.Options{Log: quiet.Log, Workers: 16})
		var mu sync.Mutex
		most, running, others := 0, 0, 0
		count := func(n *int, by int) {
			mu.Lock()
			defer mu.Unlock()
			*n += by
			most = max(most, running)
		}
		q.Handle("slow", func(context.Context, queue.Delivery) error {
			count(&running, 1)
			time.Sleep(time.Second)
			count(&running, -1)
			return nil
		}, queue.Workers(2))
		q.Handle("quick", func(context.Context, queue.Delivery) error {
			count(&others, 1)
			return nil
		})
		queuetest.Run(t, q)
		for range 20 {
			publish(t, q, queue.Task{Queue: "slow"})
			publish(t, q, queue.Task{Queue: "quick"})
		}
		queuetest.Advance(time.Second)
		require.Equal(t, 20, others)
		queuetest.Advance(11 * time.Second)
		require.Equal(t, 2, most)
		require.Zero(t, running)
		for r, err := range q.List(t.Context(), queue.Filter{}) {
			require.NoError(t, err)
			require.Equal(t, dispatcher.StatusDelivered, r.Status)
		}
	})
}

func TestAMuxCallsTheHandlerOfTheTopic(t *testing.T) {
	var mux queue.Mux
	called := ""
	for _, topic := range []string{"order.paid", "order.*", "order.items.*", "mail.welcome"} {
		mux.Handle(topic, func(context.Context, queue.Delivery) error {
			called = topic
			return nil
		})
	}
	for topic, want := range map[string]string{
		"order.paid": "order.paid", "order.unpaid": "order.*", "order.items.sold": "order.items.*", "order.paid.late": "order.*", "mail.welcome": "mail.welcome",
	} {
		require.NoError(t, mux.Serve(t.Context(), queue.Delivery{Topic: topic}))
		require.Equal(t, want, called, topic)
	}
	for _, topic := range []string{"mail.farewell", "order", "ordering"} {
		err := mux.Serve(t.Context(), queue.Delivery{Topic: topic})
		require.ErrorIs(t, err, queue.ErrNoHandler)
		require.NotErrorIs(t, err, queue.ErrSkipRetry)
		require.EqualError(t, err, fmt.Sprintf("no handler for its topic %q", topic))
	}
	nothing := func(context.Context, queue.Delivery) error { return nil }
	mux.Handle("*", nothing)
	require.NoError(t, mux.Serve(t.Context(), queue.Delivery{Topic: "ordering"}))
	require.Panics(t, func() { mux.Handle("a b", nothing) })
	require.Panics(t, func() { mux.Handle("a", nil) })
	require.Panics(t, func() { mux.Handle("*", nothing) })
}

func TestOnDeadIsCalledOnceWithEachDeadDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []queue.Dead
		o := quiet
		o.OnDead = func(_ context.Context, d queue.Dead) {
			got = append(got, d)
			if len(got) == 1 {
				panic("the hook itself")
			}
		}
		q := queuetest.Open(t, o)
		q.Handle("work", func(_ context.Context, d queue.Delivery) error {
			if d.MessageID == "skipped" {
				return queue.SkipRetry(errors.New("no such order"))
			}
			return errors.New("no")
		})
		queuetest.Run(t, q)
		publish(t, q, queue.Task{ID: "skipped", Subject: "order 17", Body: 17, Headers: map[string]string{"X-From": "here"}})
		queuetest.Advance(time.Second)
		publish(t, q, queue.Task{ID: "exhausted", Ladder: []time.Duration{time.Minute}})
		publish(t, q, queue.Task{ID: "expired", Queue: "nobody", ExpiresAt: time.Now().Add(time.Hour)})
		queuetest.Advance(2 * time.Hour)
		require.Len(t, got, 3)
		require.Equal(t, queue.Dead{Delivery: queue.Delivery{
			ID: "q_work:skipped", MessageID: "skipped", Queue: "work", Topic: "test", Subject: "order 17", Attempt: 1, MaxAttempts: 1,
			Body: []byte("17"), ContentType: "application/json", Headers: map[string]string{"X-From": "here"}, CreatedAt: got[0].CreatedAt, LastError: "no such order",
		}, Reason: dispatcher.ReasonRejected}, got[0])
		require.Equal(t, dispatcher.ReasonExhausted, got[1].Reason)
		require.Equal(t, "no", got[1].LastError)
		require.Equal(t, 2, got[1].Attempt)
		require.Equal(t, "expired", got[2].MessageID)
		require.Equal(t, "nobody", got[2].Queue)
		require.Equal(t, dispatcher.ReasonExpired, got[2].Reason)
		require.Zero(t, got[2].Attempt)
	})
}

// errorsOnly is a log that takes errors only.
type errorsOnly struct{ logged }

func (errorsOnly) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

// More deaths than wait for a slow hook are not reported to it. The log says how many, and List has all.
func TestASlowOnDeadMissesSomeAndTheLogSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, lines, done := 0, newLogged(), make(chan struct{})
		o := queue.Options{Log: slog.New(errorsOnly{lines})}
		o.OnDead = func(context.Context, queue.Dead) {
			calls++
			<-done
		}
		q := queuetest.Open(t, o)
		q.Handle("work", func(context.Context, queue.Delivery) error { return queue.SkipRetry(errors.New("no")) })
		queuetest.Run(t, q)
		var tasks []queue.Task
		for range 600 {
			tasks = append(tasks, queue.Task{Queue: "work", Topic: "test"})
		}
		for range 2 {
			_, err := q.PublishBatch(t.Context(), tasks)
			require.NoError(t, err)
		}
		queuetest.Advance(time.Minute)
		require.Len(t, queuetest.Dead(t, q), 1200)
		require.Equal(t, 1, calls)
		close(done)
		queuetest.Advance(time.Minute)
		require.Equal(t, 1+1024, calls)
		lines.waitFor(t, "ERROR some dead deliveries were not reported to OnDead, which is too slow")
	})
}

// The deaths of the last moment are reported too, and a hook that hangs does not hold up the end.
func TestTheEndWaitsForOnDeadButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := make(chan error, 1) // the hook still runs when Run has returned
		o := queue.Options{Log: quiet.Log, Grace: time.Minute}
		stuck := make(chan struct{})
		o.OnDead = func(ctx context.Context, d queue.Dead) {
			if d.MessageID == "0" {
				<-ctx.Done()
				errs <- ctx.Err()
				<-stuck
			}
		}
		q := queuetest.Open(t, o)
		q.Handle("work", func(context.Context, queue.Delivery) error { return queue.SkipRetry(errors.New("no")) })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- q.Run(ctx) }()
		for n := range 11 {
			var tasks []queue.Task
			for k := range 100 {
				tasks = append(tasks, queue.Task{Queue: "work", Topic: "test", ID: fmt.Sprint(100*n + k)})
			}
			_, err := q.PublishBatch(t.Context(), tasks)
			require.NoError(t, err)
		}
		queuetest.Advance(time.Minute)
		require.Empty(t, slices.Collect(func(yield func(error) bool) {
			for r, err := range q.List(t.Context(), queue.Filter{Queue: "work"}) {
				if err != nil || r.Status != dispatcher.StatusDead {
					yield(fmt.Errorf("%s is %s: %w", r.ID, r.Status, err))
				}
			}
		}))
		stopped := time.Now()
		stop()
		require.NoError(t, <-ended)
		require.ErrorIs(t, <-errs, context.Canceled)
		require.WithinDuration(t, stopped.Add(time.Minute), time.Now(), 5*time.Second)
		close(stuck)
	})
}
