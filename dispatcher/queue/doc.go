// Package queue runs Hookladder's queues in a Go program. A program publishes a task, for
// example with a delay of 30 minutes, and a handler function of any program is called with
// it, with retries if it fails. It needs Redis, and nothing else.
//
//	q, err := queue.Open(ctx, "redis://127.0.0.1:6379", queue.Options{Project: "shop"})
//	...
//	_, err = q.Publish(ctx, queue.Task{
//		Queue: "order_cancel", Topic: "order.unpaid", Body: order, Delay: 30 * time.Minute,
//	})
//	...
//	queue.Handle(q, "order_cancel", func(ctx context.Context, o Order, d queue.Delivery) error {
//		return cancel(ctx, o)
//	})
//	err = q.Run(ctx)
//
// Every published task ends delivered, dead or cancelled, whichever programs die. A
// failed handler is retried after the waits of the ladder. A panic is a failure too. A handler
// knows its attempt and the last one (Delivery.Last), and may wait without an attempt (Snooze). If a
// program is killed, another one handles its deliveries within ten seconds. So a handler
// may receive a task twice, and recognizes it by Delivery.MessageID.
//
// A delivery that was in progress when two programs died is a suspect. Each program
// handles suspects one at a time, because one of them may crash the program. If a third
// program dies while it handles the delivery, the delivery is dead.
//
// A queue exists as soon as a message or a handler names it. Messages wait until a
// program handles their queue. Each program handles any queues of its project, and shares
// the project with other programs and with hookladder serve. Its API, commands and
// console show a queue like any other destination. Messages from this package and from
// the API are the same.
package queue

// To read the package, follow a delivery:
//
//   - publish.go accepts a task or a callback.
//   - handle.go defines handlers.
//   - mux.go chooses a handler by the topic.
//   - take.go leases deliveries for free workers.
//   - attempt.go calls a handler and settles the delivery.
//   - result.go reads the handler's error.
//   - dead.go calls Options.OnDead.
