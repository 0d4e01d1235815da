package queuetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/queue/queuetest"
)

type shop struct{ closed []int }

func (s *shop) close(_ context.Context, order int, _ queue.Delivery) error {
	s.closed = append(s.closed, order)
	return nil
}

func TestAnUnpaidOrderIsClosedAfterHalfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{}
		q := queuetest.Open(t, queue.Options{})
		queue.Handle(q, "order_close", s.close)
		queuetest.Run(t, q)

		_, err := q.Publish(t.Context(), queue.Task{
			Queue: "order_close", Topic: "order.unpaid", Body: 17, Delay: 30 * time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		queuetest.Advance(29 * time.Minute)
		if len(s.closed) != 0 {
			t.Error("it was closed too early")
		}
		queuetest.Advance(time.Minute)
		if len(s.closed) != 1 || s.closed[0] != 17 {
			t.Error("it was not closed")
		}
	})
}
