package queuetest_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/queue/queuetest"
)

var quiet = queue.Options{Log: slog.New(slog.DiscardHandler)}

func TestAnUnpaidOrderIsClosedAfterHalfAnHourAndRetriedOnItsLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		began := time.Now()
		var handled []time.Duration
		queue.Handle(q, "order_close", func(_ context.Context, order int, d queue.Delivery) error {
			require.Equal(t, 17, order)
			handled = append(handled, time.Since(began).Round(100*time.Millisecond))
			if d.Attempt < 5 {
				return errors.New("locked")
			}
			return nil
		})
		queuetest.Run(t, q)
		_, err := q.Publish(t.Context(), queue.Task{Queue: "order_close", Topic: "order.unpaid", Body: 17, Delay: 30 * time.Minute})
		require.NoError(t, err)
		queuetest.Advance(29 * time.Minute)
		require.Empty(t, handled)
		queuetest.Advance(time.Minute)
		require.Equal(t, []time.Duration{30 * time.Minute}, handled)
		queuetest.Advance(2 * time.Hour)
		first := 30 * time.Minute
		require.Equal(t, []time.Duration{
			first, first + 15*time.Second, first + 195*time.Second, first + 795*time.Second, first + 2595*time.Second,
		}, handled)
		require.Empty(t, queuetest.Dead(t, q))
	})
}

func TestATaskIsDeadAfterItsLastRung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		q.Handle("mail", func(_ context.Context, d queue.Delivery) error {
			if d.Topic == "mail.broken" {
				panic("no template")
			}
			return errors.New("no answer")
		})
		queuetest.Run(t, q)
		for _, topic := range []string{"mail.welcome", "mail.broken"} {
			_, err := q.Publish(t.Context(), queue.Task{ID: topic[5:], Queue: "mail", Topic: topic, Ladder: []time.Duration{time.Hour, 24 * time.Hour}})
			require.NoError(t, err)
		}
		queuetest.Advance(25*time.Hour - time.Second)
		require.Empty(t, queuetest.Dead(t, q))
		queuetest.Advance(time.Minute)
		dead := queuetest.Dead(t, q)
		require.Len(t, dead, 2)
		slices.SortFunc(dead, func(a, b queue.Record) int { return strings.Compare(a.MessageID, b.MessageID) }) // both were published in one ms
		require.Equal(t, "broken", dead[0].MessageID)
		require.Contains(t, dead[0].LastError, "panic: no template")
		require.Equal(t, "welcome", dead[1].MessageID)
		require.Equal(t, "no answer", dead[1].LastError)
		require.Equal(t, dispatcher.ReasonExhausted, dead[1].Reason)
		require.Equal(t, 3, dead[1].Attempts)
	})
}

func TestADeadlineEndsAHandlerInSimulatedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		var errs []error
		q.Handle("slow", func(ctx context.Context, d queue.Delivery) error {
			<-ctx.Done()
			errs = append(errs, ctx.Err())
			return ctx.Err()
		})
		queuetest.Run(t, q)
		_, err := q.Publish(t.Context(), queue.Task{Queue: "slow", Topic: "report", Timeout: 20 * time.Second, MaxAttempts: 1})
		require.NoError(t, err)
		queuetest.Advance(21 * time.Second) // it began some milliseconds after Run
		require.Equal(t, []error{context.DeadlineExceeded}, errs)
		require.Len(t, queuetest.Dead(t, q), 1)
	})
}

// The options of the real program name its Redis, which the store in memory is not.
func TestTheOptionsOfAProgramServeItsTests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, queue.Options{
			Log: quiet.Log, Project: "shop", Partitions: 4, Poll: true, Durability: dispatcher.Durability{Replicas: 2},
			RedisMode: queue.RedisCluster, RedisMaster: "main", RedisCAFile: "/etc/redis/ca.pem",
			Credentials: func(context.Context) (string, string, error) { return "shop", "secret", nil },
		})
		handled := 0
		q.Handle("mail", func(context.Context, queue.Delivery) error {
			handled++
			return nil
		})
		queuetest.Run(t, q)
		_, err := q.Publish(t.Context(), queue.Task{Queue: "mail", Topic: "mail.welcome", Delay: time.Minute})
		require.NoError(t, err)
		queuetest.Advance(time.Minute)
		require.Equal(t, 1, handled)
	})
}

func TestTheLastThatDiedIsTheFirstOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		q.Handle("mail", func(context.Context, queue.Delivery) error { return errors.New("no answer") })
		queuetest.Run(t, q)
		for _, task := range []queue.Task{{ID: "slow", Ladder: []time.Duration{time.Hour}}, {ID: "quick", MaxAttempts: 1}} {
			task.Queue, task.Topic = "mail", "mail.welcome"
			_, err := q.Publish(t.Context(), task)
			require.NoError(t, err)
			queuetest.Advance(time.Second)
		}
		queuetest.Advance(time.Hour)
		dead := queuetest.Dead(t, q)
		require.Equal(t, []string{"slow", "quick"}, []string{dead[0].MessageID, dead[1].MessageID})
	})
}

// What is older than its retention goes, so an id is free again.
func TestAnIdIsFreeAgainAfterItsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, queue.Options{Log: quiet.Log, Retention: time.Hour, DedupMax: 1})
		q.Handle("mail", func(context.Context, queue.Delivery) error { return nil })
		queuetest.Run(t, q)
		known := func() bool {
			pub, err := q.Publish(t.Context(), queue.Task{ID: "one", Queue: "mail", Topic: "mail.welcome"})
			require.NoError(t, err)
			return pub.Duplicate
		}
		require.False(t, known())
		queuetest.Advance(50 * time.Minute)
		require.True(t, known())
		_, err := q.Publish(t.Context(), queue.Task{ID: "two", Queue: "mail", Topic: "mail.welcome"})
		require.NoError(t, err)
		queuetest.Advance(16 * time.Minute)
		require.False(t, known())
	})
}

// Hours of simulated time cost little, although an instance polls and beats.
func TestAnIdleDayOfSimulatedTimeAllocatesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		q.Handle("mail", func(context.Context, queue.Delivery) error { return nil })
		queuetest.Run(t, q)
		queuetest.Advance(time.Hour)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		queuetest.Advance(24 * time.Hour)
		runtime.ReadMemStats(&after)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(500), "MiB")
	})
}

func TestOutsideOfABubbleAdvanceSaysWhereItBelongs(t *testing.T) {
	require.PanicsWithValue(t, "queuetest: Advance: goroutine is not in a bubble: call it in a function of synctest.Test", func() { queuetest.Advance(time.Hour) })
}

// Each test has a store of its own, and a task that nobody handles does not hold up its end.
func TestTwoQueuesShareNothingAndEndWithTheirTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := queuetest.Open(t, quiet), queuetest.Open(t, quiet)
		for _, q := range []*queue.Queue{first, second} {
			pub, err := q.Publish(t.Context(), queue.Task{ID: "one", Queue: "mail", Topic: "mail.welcome", Delay: time.Hour})
			require.NoError(t, err)
			require.False(t, pub.Duplicate)
		}
		require.NoError(t, first.Cancel(t.Context(), "one"))
	})
}
