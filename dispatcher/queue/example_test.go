package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

// newExampleQueue opens a queue with a store in memory.
func newExampleQueue() (*queue.Queue, func()) {
	store := miniredis.NewMiniRedis()
	if err := store.Start(); err != nil {
		panic(err)
	}
	q, err := queue.Open(context.Background(), "redis://"+store.Addr(), queue.Options{Forgetful: true})
	if err != nil {
		panic(err)
	}
	return q, func() {
		_ = q.Close()
		store.Close()
	}
}

func ExampleQueue_PublishBatch() {
	q, end := newExampleQueue()
	defer end()
	results, err := q.PublishBatch(context.Background(), []queue.Task{
		{ID: "mail_1", Queue: "mail", Topic: "mail.welcome", Body: 1},
		{ID: "mail_2", Queue: "mail", Body: 2},
		{ID: "mail_1", Queue: "mail", Topic: "mail.welcome", Body: 1},
	})
	if err != nil {
		panic(err) // a task may be stored; it is safe to publish all of them again
	}
	for _, r := range results {
		fmt.Println(r.ID, r.Duplicate, r.Err != nil)
	}
	// Output:
	// mail_1 false false
	//  false true
	// mail_1 true false
}

// A program publishes at each change. The handler runs once nothing has changed for a minute.
func ExampleQueue_Reschedule() {
	q, end := newExampleQueue()
	defer end()
	ctx := context.Background()
	changed := func() error {
		p, err := q.Publish(ctx, queue.Task{ID: "index_17", Queue: "index", Topic: "page.changed", Body: 17, Delay: time.Minute})
		if err == nil && p.Duplicate {
			err = q.Reschedule(ctx, p.ID, time.Now().Add(time.Minute))
		}
		return err
	}
	fmt.Println(changed(), changed(), changed())
	// Output: <nil> <nil> <nil>
}

// A handler is a function, so a test calls it without a queue.
func ExampleTyped() {
	type order struct{ Number int }
	closeOrder := func(ctx context.Context, o order, d queue.Delivery) error {
		inside, _ := queue.FromContext(ctx)
		fmt.Println("close", o.Number, inside.MessageID, d.Last())
		return queue.Snooze(time.Hour)
	}
	d := queue.Delivery{MessageID: "close_17", Body: []byte(`{"Number":17}`), Attempt: 3, MaxAttempts: 3}
	err := queue.Typed(closeOrder)(queue.NewContext(context.Background(), d), d)
	var wait *queue.SnoozeError
	fmt.Println(errors.As(err, &wait), wait.After)
	// Output:
	// close 17 close_17 true
	// true 1h0m0s
}

// A middleware asks an error what it means.
func ExampleQueue_Use() {
	q, end := newExampleQueue()
	defer end()
	q.Use(func(next queue.HandlerFunc) queue.HandlerFunc {
		return func(ctx context.Context, d queue.Delivery) error {
			err := next(ctx, d)
			var again *queue.RetryError
			switch {
			case errors.Is(err, queue.ErrSkipRetry):
				fmt.Println(d.Topic, "is given up")
			case errors.As(err, &again):
				fmt.Println(d.Topic, "comes again in", again.After)
			}
			return err
		}
	})
	var mux queue.Mux
	mux.Handle("mail.*", func(context.Context, queue.Delivery) error {
		return queue.RetryAfter(time.Hour, errors.New("the server is busy"))
	})
	ctx, stop := context.WithCancel(context.Background())
	mux.Handle("mail.bounced", func(context.Context, queue.Delivery) error {
		defer stop()
		return queue.SkipRetry(errors.New("no such address"))
	})
	q.Handle("mail", mux.Serve, queue.Workers(1))
	for _, topic := range []string{"mail.welcome", "mail.bounced"} {
		if _, err := q.Publish(ctx, queue.Task{Queue: "mail", Topic: topic, OrderingKey: topic[5:6]}); err != nil {
			panic(err)
		}
	}
	if err := q.Run(ctx); err != nil {
		panic(err)
	}
	// Unordered output:
	// mail.welcome comes again in 1h0m0s
	// mail.bounced is given up
}

func ExampleQueue_Stats() {
	q, end := newExampleQueue()
	defer end()
	ctx := context.Background()
	if _, err := q.Publish(ctx, queue.Task{ID: "mail_1", Queue: "mail", Topic: "mail.welcome"}); err != nil {
		panic(err)
	}
	if err := q.Pause(ctx, "mail"); err != nil {
		panic(err)
	}
	stats, err := q.Stats(ctx, "mail")
	if err != nil {
		panic(err)
	}
	fmt.Println(stats[0].Queue, stats[0].Waiting, stats[0].Paused)
	r, err := q.Get(ctx, "mail_1")
	fmt.Println(r.Status, err)
	fmt.Println(q.Cancel(ctx, "mail_1"))
	for r, err := range q.List(ctx, queue.Filter{Queue: "mail"}) {
		fmt.Println(r.MessageID, r.Status, err)
	}
	// Output:
	// mail 1 true
	// ready <nil>
	// <nil>
	// mail_1 cancelled <nil>
}

// A callback goes out over HTTP, by a hookladder serve of the project.
func ExampleQueue_Send() {
	q, end := newExampleQueue()
	defer end()
	ctx := context.Background()
	p, err := q.Send(ctx, queue.Callback{ID: "paid_17", URL: "https://shop.example/hooks", Topic: "order.paid", Body: 17})
	if err != nil {
		panic(err)
	}
	fmt.Println(p.ID, p.Deliveries[0].Status)

	toAll := queue.Callback{Tenant: "acme", Topic: "order.paid", Body: 17} // to each endpoint of the tenant that wants it
	_, err = q.Send(ctx, toAll)
	fmt.Println(errors.Is(err, queue.ErrUnmatched))
	toAll.AllowUnmatched = true
	p, err = q.Send(ctx, toAll)
	fmt.Println(len(p.Deliveries), err)
	// Output:
	// paid_17 ready
	// true
	// 0 <nil>
}

// Nothing of a paused queue is handled, in any program.
func ExampleQueue_Resume() {
	q, end := newExampleQueue()
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	q.Handle("mail", func(_ context.Context, d queue.Delivery) error {
		fmt.Println("sent", d.MessageID)
		stop()
		return nil
	})
	if err := q.Pause(ctx, "mail"); err != nil {
		panic(err)
	}
	if _, err := q.Publish(ctx, queue.Task{ID: "mail_1", Queue: "mail", Topic: "mail.welcome"}); err != nil {
		panic(err)
	}
	stats, err := q.Stats(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("waiting", stats[0].Waiting, "paused", stats[0].Paused)
	if err := q.Resume(ctx, "mail"); err != nil {
		panic(err)
	}
	if err := q.Run(ctx); err != nil {
		panic(err)
	}
	// Output:
	// waiting 1 paused true
	// sent mail_1
}

// OnDead rings. After the cure, Replay handles what is dead again.
func ExampleQueue_Replay() {
	store := miniredis.NewMiniRedis()
	if err := store.Start(); err != nil {
		panic(err)
	}
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	dead := make(chan queue.Dead, 1)
	q, err := queue.Open(ctx, "redis://"+store.Addr(), queue.Options{
		Forgetful: true,
		OnDead:    func(_ context.Context, d queue.Dead) { dead <- d },
	})
	if err != nil {
		panic(err)
	}
	var cured atomic.Bool
	q.Handle("mail", func(_ context.Context, d queue.Delivery) error {
		if !cured.Load() {
			return queue.SkipRetry(errors.New("no template"))
		}
		stop()
		return nil
	})
	if _, err := q.Publish(ctx, queue.Task{ID: "mail_1", Queue: "mail", Topic: "mail.welcome"}); err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()

	d := <-dead
	fmt.Println(d.MessageID, d.Reason, d.LastError)
	cured.Store(true)
	n, err := q.Replay(context.Background(), queue.Filter{Queue: "mail", Topics: []string{"mail.*"}})
	fmt.Println(n, err)
	fmt.Println(<-ended)
	// Output:
	// mail_1 rejected no template
	// 1 <nil>
	// <nil>
}

// Each time has one task, however many programs have the same Every.
func ExampleQueue_Every() {
	q, end := newExampleQueue()
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	every := 50 * time.Millisecond // an hour or a day in a real program, or the method Next of a cron schedule
	next := func(t time.Time) time.Time { return t.Truncate(every).Add(every) }
	q.Every("report", next, func(at time.Time) queue.Task {
		return queue.Task{Queue: "report", Topic: "report.due", Body: at}
	})
	var first sync.Once
	queue.Handle(q, "report", func(_ context.Context, at time.Time, d queue.Delivery) error {
		first.Do(func() {
			fmt.Println(d.MessageID == fmt.Sprint("every_report_", at.UnixMilli()), time.Now().Before(at))
			stop()
		})
		return nil
	})
	if err := q.Run(ctx); err != nil {
		panic(err)
	}
	// Output: true false
}

// A person decides that lost data stay lost. Until then each call says what is missing.
func ExampleAcceptLoss() {
	store := miniredis.NewMiniRedis()
	if err := store.Start(); err != nil {
		panic(err)
	}
	defer store.Close()
	ctx, url, options := context.Background(), "redis://"+store.Addr(), queue.Options{Forgetful: true}
	q, err := queue.Open(ctx, url, options)
	if err != nil {
		panic(err)
	}
	defer q.Close()
	publish := func(id string) error {
		_, err := q.Publish(ctx, queue.Task{ID: id, Queue: "mail", Topic: "mail.welcome"})
		return err
	}
	fmt.Println(publish("mail_1"))
	store.FlushAll() // somebody emptied it

	var loss *queue.Emptied
	fmt.Println(errors.As(publish("mail_2"), &loss))
	fmt.Println(queue.AcceptLoss(ctx, url, options)) // open queues continue within some seconds
	fmt.Println(queue.AcceptLoss(ctx, url, options))
	// Output:
	// <nil>
	// true
	// true <nil>
	// false <nil>
}

// A key is never printed, so options can be logged.
func ExampleKey() {
	fmt.Printf("%+v\n", struct{ EncryptionKey queue.Key }{queue.NewKey("0123456789abcdef0123456789abcdef")})
	// Output: {EncryptionKey:[redacted]}
}
