package queuetest_test

import (
	"context"
	"errors"
	"log/slog"
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
