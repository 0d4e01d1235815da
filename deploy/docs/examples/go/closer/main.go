// Closer closes orders that are not paid within half an hour, and asks the payment provider on a
// ladder meanwhile, as programs with delayqueue do. At the last attempt a person gets the case.
//
//	REDIS_URL=redis://127.0.0.1:6379 go run ./deploy/docs/examples/go/closer
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/queue"
)

// Provider answers whether an order is paid.
type Provider interface {
	State(ctx context.Context, order string) (string, error) // paid, pending or gone
}

// Shop is the orders with their queues. Its map is a database in a real program.
type Shop struct {
	queue    *queue.Queue
	provider Provider
	mu       sync.Mutex
	orders   map[string]string
}

// NewShop registers the handlers of the shop.
func NewShop(q *queue.Queue, p Provider) *Shop {
	s := &Shop{queue: q, provider: p, orders: map[string]string{}}
	queue.Handle(q, "order_close", s.closeUnpaid)
	queue.Handle(q, "payment_poll", s.poll, queue.Workers(4)) // the provider takes no more at once
	return s
}

// polls are the waits between the questions to the provider.
var polls = []time.Duration{time.Minute, 5 * time.Minute, 20 * time.Minute}

// Place accepts an order. Both tasks have an id, so a repeat of the call stores nothing twice.
func (s *Shop) Place(ctx context.Context, order string) error {
	s.set(order, "unpaid", "")
	results, err := s.queue.PublishBatch(ctx, []queue.Task{
		{ID: "close_" + order, Queue: "order_close", Topic: "order.unpaid", Body: order, Delay: 30 * time.Minute},
		{ID: "poll_" + order, Queue: "payment_poll", Topic: "payment.pending", Body: order, Ladder: polls},
	})
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}

// Paid marks an order as paid, and nothing closes it any more.
func (s *Shop) Paid(ctx context.Context, order string) error {
	s.set(order, "paid", "unpaid")
	return s.queue.Cancel(ctx, "close_"+order)
}

func (s *Shop) poll(ctx context.Context, order string, d queue.Delivery) error {
	switch state, err := s.provider.State(ctx, order); {
	case err != nil:
		return queue.Snooze(time.Minute) // the provider is down, which is no answer: the ladder stays
	case state == "paid":
		return s.Paid(ctx, order)
	case state == "gone":
		return queue.SkipRetry(fmt.Errorf("the provider does not know order %s", order))
	case d.Last():
		s.set(order, "a person decides", "unpaid")
		return s.queue.Cancel(ctx, "close_"+order)
	default:
		return fmt.Errorf("order %s is not paid yet", order)
	}
}

// Extend gives the customer more time.
func (s *Shop) Extend(ctx context.Context, order string, until time.Time) error {
	return s.queue.Reschedule(ctx, "close_"+order, until)
}

// closeUnpaid may run twice for one order, so it changes only an unpaid one.
func (s *Shop) closeUnpaid(_ context.Context, order string, _ queue.Delivery) error {
	s.set(order, "closed", "unpaid")
	return nil
}

// State returns the state of an order.
func (s *Shop) State(order string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders[order]
}

// set changes an order from a state, or from any state.
func (s *Shop) set(order, state, from string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from == "" || s.orders[order] == from {
		s.orders[order] = state
	}
}

// never is a provider whose customers do not pay.
type never struct{}

func (never) State(context.Context, string) (string, error) { return "pending", nil }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	q, err := queue.Open(ctx, os.Getenv("REDIS_URL"), queue.Options{Project: "closer"})
	if err != nil {
		log.Fatal(err)
	}
	if err := NewShop(q, never{}).Place(ctx, "17"); err != nil {
		log.Fatal(err)
	}
	if err := q.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
