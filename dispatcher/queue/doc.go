// Package queue runs Hookladder's queues in a Go program: call this function in 30 minutes,
// and again if it fails. It needs a Redis, and nothing else.
//
//	q, err := queue.Open(ctx, "redis://127.0.0.1:6379", queue.Options{Project: "shop"})
//	...
//	_, err = q.Publish(ctx, queue.Message{
//		Queue: "order_cancel", Topic: "order.unpaid", Body: order, Delay: 30 * time.Minute,
//	})
//	...
//	queue.Handle(q, "order_cancel", func(ctx context.Context, o Order, d queue.Delivery) error {
//		return cancel(ctx, o)
//	})
//	err = q.Run(ctx)
//
// What was published ends delivered, dead or cancelled, whichever program dies and whenever.
// A handler that fails is called again up the ladder of waits; a panic is a failure too. What
// a killed program had in hand another one handles within ten seconds. So a handler may meet
// a message twice: it can tell by Delivery.MessageID. What two programs had in hand when they
// died each program handles one at a time. It is dead if a third one dies while it handles it.
//
// A queue is there by being named. Until a program handles it, what is published waits. Each
// program handles the queues that it likes, and all share one project, with each other and
// with hookladder serve, whose API, commands and console show the queues as any destination.
// What this package publishes and what the API publishes is the same.
//
// The other files, in the order of a delivery's way: publish.go accepts, handle.go says what
// a handler is, take.go takes for free workers. Then attempt.go calls a handler and settles,
// and result.go reads its error.
package queue
