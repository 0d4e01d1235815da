// Package queuetest tests programs that use package queue, without a Redis and without
// waiting. It works in a bubble of testing/synctest, where time is simulated:
//
//	synctest.Test(t, func(t *testing.T) {
//		q := queuetest.Open(t, queue.Options{})
//		queue.Handle(q, "order_close", shop.close)
//		queuetest.Run(t, q)
//		_, err := q.Publish(t.Context(), queue.Task{Queue: "order_close", Topic: "order.unpaid", Body: 17, Delay: 30 * time.Minute})
//		...
//		queuetest.Advance(29 * time.Minute) // nothing is handled yet
//		queuetest.Advance(2 * time.Minute)  // it was handled
//	})
//
// The store is Redis in memory (miniredis) with the scripts of the real one. Delays, ladders,
// deadlines and expiries are those of a real program.
package queuetest

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

// Open opens a Queue with an empty store in memory, which is closed with the test. It must be
// called in a bubble of testing/synctest. The options may be those of the real program: the ones about
// its Redis are replaced (Dial, Credentials, RedisMode, RedisMaster, RedisCAFile, Durability, Poll,
// Forgetful). What is older than its retention is removed within five minutes.
func Open(tb testing.TB, o queue.Options) *queue.Queue {
	tb.Helper()
	store := miniredis.NewMiniRedis()
	store.ClockTTL(true) // expiries follow the simulated time
	o.Credentials, o.RedisMode, o.RedisMaster, o.RedisCAFile = nil, "", "", ""
	o.Durability, o.Poll, o.Forgetful = dispatcher.Durability{}, false, true
	if dead := o.OnDead; dead != nil {
		o.OnDead = func(ctx context.Context, d queue.Dead) {
			turn.Add(1)
			defer turn.Add(1)
			dead(ctx, d)
		}
	}
	o.Dial = func(context.Context, string, string) (net.Conn, error) {
		c, err := store.Dial()
		if err != nil {
			return nil, err
		}
		return newConn(c), nil
	}
	// Connections are never idle for too long: hours of simulated time would open hundreds of them.
	q, err := queue.Open(engine.Alone(context.Background()), "redis://memory?conn_max_idle_time=-1", o)
	if err != nil {
		store.Close()
		tb.Fatal(err)
	}
	q.Use(func(next queue.HandlerFunc) queue.HandlerFunc {
		return func(ctx context.Context, d queue.Delivery) error {
			turn.Add(1)
			defer turn.Add(1)
			return next(ctx, d)
		}
	})
	tb.Cleanup(func() {
		if err := q.Close(); err != nil {
			tb.Error(err)
		}
		store.Close()
	})
	return q
}

// Run runs the handlers of q until the test ends, and fails the test if Queue.Run returns an
// error. Handlers still running then have Options.Grace to return.
func Run(tb testing.TB, q *queue.Queue) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
}

// moment is the simulated time in which the store and the handlers finish what was due: a take
// waits up to a millisecond for more work, and due times are whole milliseconds.
const moment = 20 * time.Millisecond

// turn tells the race detector that what a test did before Advance is before the handlers that run
// meanwhile, and that a handler that has returned is before the next one. synctest.Wait tells it that
// all of them are before what the test does afterwards.
var turn atomic.Int64

// Advance lets d pass, and a moment of 20 ms. Then everything that was due has been handled,
// unless a handler itself waits for longer. So a test and its handlers need no lock for what they share.
// It panics outside of a bubble.
func Advance(d time.Duration) {
	inBubble()
	turn.Add(1)
	time.Sleep(d + moment)
	synctest.Wait()
}

// inBubble panics outside of a bubble, before Advance would wait for real time.
func inBubble() {
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("queuetest: Advance: %v: call it in a function of synctest.Test", p))
		}
	}()
	synctest.Wait()
}

// Dead returns the dead deliveries, the last one that died first.
func Dead(tb testing.TB, q *queue.Queue) (dead []queue.Record) {
	tb.Helper()
	for r, err := range q.List(context.Background(), queue.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDead}}) {
		if err != nil {
			tb.Fatal(err)
		}
		dead = append(dead, r)
	}
	return dead
}
