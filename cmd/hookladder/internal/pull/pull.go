// Package pull takes deliveries over the API for a person at a shell, and has each
// handled: by a program, or by an app on this machine.
package pull

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

// What became of a delivery, as the API has it.
const (
	delivered = "delivered"
	retry     = "retry"
	dead      = "dead"
	extend    = "extend"
)

// Handler says what became of a delivery. An error ends the loop, after the
// settlement was told.
type Handler func(ctx context.Context, d *wire.TakenDelivery) (wire.Settlement, error)

// Loop takes deliveries and has each handled.
type Loop struct {
	// The calls of the API: a client's Take and Settle.
	Take   func(ctx context.Context, queue string, t wire.Take) ([]wire.TakenDelivery, error)
	Settle func(ctx context.Context, queue string, results []wire.Settlement) ([]wire.SettledDelivery, error)

	Queue   string        // or the id of an endpoint of kind pull
	Workers int           // deliveries that are handled at once
	Lease   time.Duration // which is made longer while a delivery is handled
	Most    int           // it ends after so many; 0: it goes on
	Drain   bool          // it ends once there is nothing to take
	Grace   time.Duration // how long handlers may go on after ctx has ended
	Handle  Handler
	Say     func(format string, args ...any) // tells a person what went wrong
}

// wait is how long a call waits for something to take.
const wait = 20 * time.Second

// Run takes until ctx ends, or as the loop says. What is wrong with the first call, or
// can't become better, is an error.
func (l *Loop) Run(ctx context.Context) error {
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

// take gives what it takes to begin, a slot for each.
func (l *Loop) take(ctx context.Context, begin func(*wire.TakenDelivery), slots chan struct{}) error {
	again := backoff{say: l.Say}
	for n := 0; l.Most == 0 || n < l.Most; {
		free := l.gather(ctx, slots, l.Most-n)
		if free == 0 {
			return nil // ctx has ended
		}
		t := wire.Take{Max: free, Lease: wire.Duration(l.Lease), Wait: wire.Duration(wait)}
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

// mostTaken is how many deliveries one call may take.
const mostTaken = 100

// gather takes a slot, and those that are free besides, up to most of them where
// that is a number. It answers 0 when ctx has ended.
func (l *Loop) gather(ctx context.Context, slots chan struct{}, most int) (got int) {
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

// handle has one delivery handled, its lease made longer meanwhile, and tells what
// became of it.
func (l *Loop) handle(ctx context.Context, d *wire.TakenDelivery) error {
	working, done := context.WithCancel(ctx)
	var extending sync.WaitGroup
	extending.Go(func() { l.keep(working, d) })
	s, failed := l.Handle(ctx, d)
	done()
	extending.Wait()
	s.ID, s.Lease = d.ID, d.Lease
	l.settle(context.WithoutCancel(ctx), s)
	return failed
}

// keep makes the lease longer, in time, until ctx ends.
func (l *Loop) keep(ctx context.Context, d *wire.TakenDelivery) {
	every := time.NewTicker(l.Lease / 2)
	defer every.Stop()
	lasts := wire.Duration(l.Lease)
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		l.settle(ctx, wire.Settlement{ID: d.ID, Lease: d.Lease, Outcome: extend, After: &lasts})
	}
}

// settleWithin is how long a settlement is tried.
const settleWithin = 20 * time.Second

// settle tells what became of a delivery. Where that can't be told its lease ends, and
// it comes again.
func (l *Loop) settle(ctx context.Context, s wire.Settlement) {
	call, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	results, err := l.Settle(call, l.Queue, []wire.Settlement{s})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.Say("%s: %s could not be told, so it comes again once its lease ends: %v", s.ID, s.Outcome, err)
	case len(results) == 1 && results[0].Result != "ok":
		l.Say("%s: %s came too late, since its lease had ended: the delivery is %s", s.ID, s.Outcome, results[0].Status)
	}
}

// backoff waits between calls that fail.
type backoff struct {
	say    func(format string, args ...any)
	stood  bool // a call was answered
	next   time.Duration
	failed bool
}

// Waits between two calls that fail: they double.
const (
	firstPause = 500 * time.Millisecond
	mostPause  = 15 * time.Second
)

// wait waits after a call that failed. It answers the error where another one would
// fail too.
func (b *backoff) wait(ctx context.Context, err error) error {
	var p *client.Problem
	answered := errors.As(err, &p)
	lasting := answered && p.Status < 500 && p.Status != http.StatusTooManyRequests || !answered && !errors.Is(err, client.ErrUnreachable)
	if lasting || !b.stood {
		return err
	}
	if !b.failed {
		b.say("%v; trying again", err)
		b.failed, b.next = true, firstPause
	}
	pause := b.next
	if answered {
		pause = max(pause, min(p.RetryAfter, mostPause))
	}
	b.next = min(2*b.next, mostPause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return nil
}

// worked notes that a call was answered.
func (b *backoff) worked() {
	if b.failed {
		b.say("it answers again")
	}
	b.stood, b.failed = true, false
}

// failure is the settlement of an attempt that failed.
func failure(format string, args ...any) wire.Settlement {
	return wire.Settlement{Outcome: retry, Error: fmt.Sprintf(format, args...)}
}
