package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// The outcomes of a delivery in the API.
const (
	deliveredOutcome = "delivered"
	retryOutcome     = "retry"
	deadOutcome      = "dead"
	extendOutcome    = "extend"
)

// takenHandler handles a delivery, and returns its settlement. An error ends the loop after the
// settlement was sent.
type takenHandler func(ctx context.Context, d *wire.TakenDelivery) (wire.Settlement, error)

// takeLoop takes deliveries and handles each of them.
type takeLoop struct {
	// The calls of the API: a client's Take and Settle.
	Take   func(ctx context.Context, queue string, t wire.Take) ([]wire.TakenDelivery, error)
	Settle func(ctx context.Context, queue string, results []wire.Settlement) ([]wire.SettledDelivery, error)

	Queue   string        // or the id of an endpoint of kind pull
	Workers int           // deliveries that are handled at once
	Lease   time.Duration // extended while a delivery is handled
	Most    int           // ends after this number of deliveries; 0: no limit
	Drain   bool          // ends when there are no more deliveries
	Grace   time.Duration // how long handlers may run after ctx has ended
	Handle  takenHandler
	Say     func(format string, args ...any) // prints errors for people
}

// takeWait is how long a call waits for a delivery.
const takeWait = 20 * time.Second

// Run takes deliveries until ctx ends or a limit of the loop is reached. It returns an error
// if the first call fails, or if a retry would fail too.
func (l *takeLoop) Run(ctx context.Context) error {
	taking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	handling, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(taking, func() { time.AfterFunc(l.Grace, cut) })()
	var running sync.WaitGroup
	slots := make(chan struct{}, l.Workers)
	err := l.take(taking, func(d *wire.TakenDelivery) {
		running.Go(func() {
			defer func() { <-slots }()
			if err := l.handle(handling, d); err != nil {
				stop(err)
			}
		})
	}, slots)
	running.Wait()
	if cause := context.Cause(taking); err == nil && ctx.Err() == nil && cause != nil {
		err = cause
	}
	return err
}

// take sends the deliveries that it takes to begin, with a slot for each of them.
func (l *takeLoop) take(ctx context.Context, begin func(*wire.TakenDelivery), slots chan struct{}) error {
	again := takeBackoff{say: l.Say}
	for n := 0; l.Most == 0 || n < l.Most; {
		free := l.gather(ctx, slots, l.Most-n)
		if free == 0 {
			return nil // ctx has ended
		}
		t := wire.Take{Max: free, Lease: wire.Duration(l.Lease), Wait: wire.Duration(takeWait)}
		if l.Drain {
			t.Wait = 0
		}
		got, err := l.Take(ctx, l.Queue, t)
		for range free - len(got) {
			<-slots
		}
		n += len(got)
		for i := range got {
			begin(&got[i])
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if err := again.wait(ctx, err); err != nil {
				return err
			}
		default:
			again.worked()
			if l.Drain && len(got) == 0 {
				return nil
			}
		}
	}
	return nil
}

// mostTaken is the most deliveries of one call.
const mostTaken = 100

// gather waits for a slot, and takes other free slots, up to the limit. It returns 0 when ctx
// has ended.
func (l *takeLoop) gather(ctx context.Context, slots chan struct{}, most int) (got int) {
	if most <= 0 || most > mostTaken {
		most = mostTaken
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for got = 1; got < most; got++ {
		select {
		case slots <- struct{}{}:
		default:
			return got
		}
	}
	return got
}

// handle handles one delivery, extends its lease in the meantime, and sends the settlement.
func (l *takeLoop) handle(ctx context.Context, d *wire.TakenDelivery) error {
	working, done := context.WithCancel(ctx)
	var extending sync.WaitGroup
	extending.Go(func() { l.extendLease(working, d) })
	s, failed := l.Handle(ctx, d)
	done()
	extending.Wait()
	s.ID, s.Lease = d.ID, d.Lease
	l.settle(context.WithoutCancel(ctx), s)
	return failed
}

// extendLease extends the lease in time until ctx ends.
func (l *takeLoop) extendLease(ctx context.Context, d *wire.TakenDelivery) {
	every := time.NewTicker(l.Lease / 2)
	defer every.Stop()
	lasts := wire.Duration(l.Lease)
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		l.settle(ctx, wire.Settlement{ID: d.ID, Lease: d.Lease, Outcome: extendOutcome, After: &lasts})
	}
}

// settleTakenWithin is the time limit of a settlement.
const settleTakenWithin = 20 * time.Second

// settle sends the settlement of a delivery. If that fails, the lease ends, and the delivery
// is taken again.
func (l *takeLoop) settle(ctx context.Context, s wire.Settlement) {
	call, cancel := context.WithTimeout(ctx, settleTakenWithin)
	defer cancel()
	results, err := l.Settle(call, l.Queue, []wire.Settlement{s})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.Say("%s: %s could not be sent, so the delivery is taken again after its lease: %v", s.ID, s.Outcome, err)
	case len(results) == 1 && results[0].Result != "ok":
		l.Say("%s: %s came too late, because its lease had ended: the delivery is %s", s.ID, s.Outcome, results[0].Status)
	}
}

// takeBackoff waits between failed calls.
type takeBackoff struct {
	say    func(format string, args ...any)
	stood  bool // a call was answered
	next   time.Duration
	failed bool
}

// The backoff between two failed calls, which doubles.
const (
	takeFirstPause = 500 * time.Millisecond
	takeMostPause  = 15 * time.Second
)

// wait waits after a failed call. It returns the error if a retry would fail too.
func (b *takeBackoff) wait(ctx context.Context, err error) error {
	var p *client.Problem
	answered := errors.As(err, &p)
	lasting := answered && p.Status < 500 && p.Status != http.StatusTooManyRequests || !answered && !errors.Is(err, client.ErrUnreachable)
	if lasting || !b.stood {
		return err
	}
	if !b.failed {
		b.say("%v; retrying", err)
		b.failed, b.next = true, takeFirstPause
	}
	pause := b.next
	if answered {
		pause = max(pause, min(p.RetryAfter, takeMostPause))
	}
	b.next = min(2*b.next, takeMostPause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return nil
}

// worked records a successful call.
func (b *takeBackoff) worked() {
	if b.failed {
		b.say("connected again")
	}
	b.stood, b.failed = true, false
}

// failedSettlement is the settlement of a failed attempt.
func failedSettlement(format string, args ...any) wire.Settlement {
	return wire.Settlement{Outcome: retryOutcome, Error: fmt.Sprintf(format, args...)}
}
