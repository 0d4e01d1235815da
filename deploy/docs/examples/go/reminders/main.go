// Reminders asks customers about what they left in their basket, as programs with river do: jobs with
// a typed body, a debounce, a snooze at night, and a bounded number of workers.
//
//	REDIS_URL=redis://127.0.0.1:6379 go run ./deploy/docs/examples/go/reminders
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/hookladder/hookladder/dispatcher/queue"
)

// Basket is the body of a reminder.
type Basket struct {
	Customer int
	Visit    string // the customer's visit: each has one reminder
}

// after is how long a basket has to stay unchanged.
const after = 2 * time.Hour

// Reminders are the reminders of a shop.
type Reminders struct {
	queue  *queue.Queue
	remind func(ctx context.Context, customer int) error
}

// New registers the handler.
func New(q *queue.Queue, remind func(ctx context.Context, customer int) error) *Reminders {
	r := &Reminders{q, remind}
	queue.Handle(q, "reminders", r.work, queue.Workers(2))
	return r
}

func (b Basket) id() string { return fmt.Sprintf("basket_%d_%s", b.Customer, b.Visit) }

// Changed is called at each change of a basket. The reminder comes two hours after the last one.
func (r *Reminders) Changed(ctx context.Context, b Basket) error {
	task := queue.Task{
		ID: b.id(), Queue: "reminders", Topic: "basket.left", Subject: fmt.Sprint("customer ", b.Customer), Body: b,
		Delay: after, OrderingKey: fmt.Sprint(b.Customer), Timeout: 30 * time.Second,
	}
	p, err := r.queue.Publish(ctx, task)
	if err != nil || !p.Duplicate {
		return err
	}
	err = r.queue.Reschedule(ctx, task.ID, time.Now().Add(after))
	if errors.Is(err, queue.ErrBegun) {
		return nil // the customer was reminded in this visit already
	}
	return err
}

// Bought ends the reminder of a visit.
func (r *Reminders) Bought(ctx context.Context, b Basket) error {
	err := r.queue.Cancel(ctx, b.id())
	if errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return err
}

func (r *Reminders) work(ctx context.Context, b Basket, d queue.Delivery) error {
	if hour := time.Now().UTC().Hour(); hour < 8 && d.Snoozes == 0 {
		return queue.Snooze(time.Duration(8-hour) * time.Hour)
	}
	return r.remind(ctx, b.Customer)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	q, err := queue.Open(ctx, os.Getenv("REDIS_URL"), queue.Options{Project: "reminders"})
	if err != nil {
		log.Fatal(err)
	}
	r := New(q, func(_ context.Context, customer int) error {
		fmt.Println("customer", customer, "left something")
		return nil
	})
	if err := r.Changed(ctx, Basket{17, "first"}); err != nil {
		log.Fatal(err)
	}
	if err := q.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
