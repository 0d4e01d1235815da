package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/hookladder/hookladder/dispatcher/queue"
)

func Example() {
	store := miniredis.NewMiniRedis() // a real Redis keeps what was published
	if err := store.Start(); err != nil {
		panic(err)
	}
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	q, err := queue.Open(ctx, "redis://"+store.Addr(), queue.Options{Project: "shop", Forgetful: true})
	if err != nil {
		panic(err)
	}
	type order struct{ Number int }
	queue.Handle(q, "order_cancel", func(_ context.Context, o order, d queue.Delivery) error {
		fmt.Printf("%s: order %d is not paid, attempt %d\n", d.Topic, o.Number, d.Attempt)
		stop()
		return nil
	})
	_, err = q.Publish(ctx, queue.Task{
		Queue: "order_cancel", Topic: "order.unpaid", Body: order{17}, Delay: 50 * time.Millisecond,
	})
	if err != nil {
		panic(err)
	}
	if err := q.Run(ctx); err != nil {
		panic(err)
	}
	// Output: order.unpaid: order 17 is not paid, attempt 1
}

func ExampleQueue_Handle() {
	store := miniredis.NewMiniRedis()
	if err := store.Start(); err != nil {
		panic(err)
	}
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	q, err := queue.Open(ctx, "redis://"+store.Addr(), queue.Options{Forgetful: true})
	if err != nil {
		panic(err)
	}
	q.Handle("mail", func(_ context.Context, d queue.Delivery) error {
		fmt.Printf("attempt %d: %s\n", d.Attempt, d.Body)
		switch d.Attempt {
		case 1:
			return queue.RetryAfter(10*time.Millisecond, errors.New("the server is busy"))
		case 2:
			return errors.New("no answer") // the next rung of the message's ladder
		}
		stop()
		return nil
	})
	_, err = q.Publish(ctx, queue.Task{
		Queue: "mail", Topic: "mail.welcome", Raw: []byte("hello"), ContentType: "text/plain",
		Ladder: []time.Duration{time.Minute, 10 * time.Millisecond},
	})
	if err != nil {
		panic(err)
	}
	if err := q.Run(ctx); err != nil {
		panic(err)
	}
	// Output:
	// attempt 1: hello
	// attempt 2: hello
	// attempt 3: hello
}

func ExampleQueue_Publish() {
	store := miniredis.NewMiniRedis()
	if err := store.Start(); err != nil {
		panic(err)
	}
	defer store.Close()
	ctx := context.Background()
	q, err := queue.Open(ctx, "redis://"+store.Addr(), queue.Options{Forgetful: true})
	if err != nil {
		panic(err)
	}
	defer q.Close()

	m := queue.Task{ID: "order_17_unpaid", Queue: "order_cancel", Topic: "order.unpaid", Body: 17}
	for range 2 {
		pub, err := q.Publish(ctx, m)
		fmt.Println(pub.ID, pub.Duplicate, err)
	}
	m.Body = 18
	_, err = q.Publish(ctx, m)
	fmt.Println(errors.Is(err, queue.ErrConflict))

	_, err = q.Publish(ctx, queue.Task{Queue: "order_cancel"})
	var invalid *queue.InvalidError
	if errors.As(err, &invalid) {
		fmt.Println(invalid.Fields[0].Field, invalid.Fields[0].Detail)
	}
	// Output:
	// order_17_unpaid false <nil>
	// order_17_unpaid true <nil>
	// true
	// Topic is needed
}
