package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Dead is a dead delivery, for Options.OnDead.
type Dead struct {
	Delivery // as the last attempt had it; LastError is the error of that attempt
	Reason   dispatcher.DeadReason
}

// deathsMost bounds the deaths that wait for OnDead.
const deathsMost = 1024

// deaths passes the deaths of deliveries to OnDead. It counts everything for the metrics, too.
type deaths struct {
	dispatcher.Observer
	queue  *Queue
	onDead func(context.Context, Dead) // nil: nobody wants them
	log    *slog.Logger
	grace  time.Duration // for the calls of OnDead at the end
	list   chan dispatcher.Death
	missed atomic.Int64
}

func newDeaths(q *Queue, counts dispatcher.Observer, s settings, onDead func(context.Context, Dead)) *deaths {
	return &deaths{Observer: counts, queue: q, onDead: onDead, log: s.log, grace: s.grace, list: make(chan dispatcher.Death, deathsMost)}
}

// Died is called with each death that a call of this program recorded. It must not block.
func (o *deaths) Died(d dispatcher.Death) {
	o.Observer.Died(d)
	if o.onDead == nil || !d.ID.Lane.IsQueue() {
		return
	}
	select {
	case o.list <- d:
	default:
		o.missed.Add(1)
	}
}

// run calls OnDead until ctx ends, which is after the last outcome was recorded. The calls of the
// rest may last as long as handlers may.
func (o *deaths) run(ctx context.Context) error {
	if o.onDead == nil {
		return nil
	}
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for calls.Err() == nil {
			select {
			case d := <-o.list:
				o.call(calls, d)
				continue
			default:
			}
			select {
			case d := <-o.list:
				o.call(calls, d)
			case <-ctx.Done():
				return
			}
		}
		o.log.Error("some dead deliveries were not reported to OnDead: the program stops", "deliveries", len(o.list))
	}()
	<-ctx.Done()
	for _, most := range []time.Duration{o.grace, cutWithin} {
		timer := time.NewTimer(most)
		select {
		case <-ended:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		cut()
	}
	o.log.Error("the function OnDead ignores its context and still runs")
	return nil
}

// call calls OnDead with a delivery. What Redis can't tell stays empty.
func (o *deaths) call(ctx context.Context, d dispatcher.Death) {
	if n := o.missed.Swap(0); n > 0 {
		o.log.Error("some dead deliveries were not reported to OnDead, which is too slow", "deliveries", n)
	}
	defer func() {
		if p := recover(); p != nil {
			o.log.Error("the function OnDead panicked", "delivery_id", d.ID.String(), "err", panicText(p), "stack", raised(debug.Stack()))
		}
	}()
	dead := Dead{Reason: d.Reason}
	name := dispatcher.QueueOf(d.ID.Lane, "")
	dead.ID, dead.MessageID, dead.Queue = d.ID.String(), d.ID.Message, name
	view, err := o.queue.engine.Message(ctx, d.ID.Message)
	switch {
	case err == nil:
		dead.Delivery = newDelivery(d.ID, dispatcher.QueueOf(d.ID.Lane, view.Message.Queue), &view.Message)
		for i := range view.Deliveries {
			if view.Deliveries[i].ID == d.ID {
				dead.LastError = view.Deliveries[i].LastError
			}
		}
	case !errors.Is(err, dispatcher.ErrNotFound):
		o.log.Warn("a dead delivery can't be read", "delivery_id", d.ID.String(), "err", fmt.Sprint(err))
	}
	dead.Attempt, dead.MaxAttempts = d.Attempts, d.Attempts
	o.onDead(ctx, dead)
}
