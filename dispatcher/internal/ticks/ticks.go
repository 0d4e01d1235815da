// Package ticks does all due work inside one call, for a program that runs only now and
// then. A scheduler makes the calls. Between two of them nothing runs, or the process is
// suspended.
//
// The engine does the work, as always. A tick wakes it and waits until nothing is left to
// do. Several at once are safe, here and in other processes.
package ticks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

const (
	// readLeast is the least time between two looks at the queue. A tick that finds work lasts
	// that long.
	readLeast = 50 * time.Millisecond
	// readPart bounds the time in which the queue is read, to a fifth.
	readPart = 5
	// handsEvery is how often it is looked whether deliveries are in hand: in memory only.
	handsEvery = 5 * time.Millisecond
	// pacedMost is how long it is waited for a lane whose rate holds ready deliveries. One
	// attempt a tick would be much less than its rate; a longer wait is the scheduler's.
	pacedMost = 5 * time.Second
	// takeoverWithin is the time for finding an instance dead and taking over from it. A tick
	// waits for that even after its own limit. If every tick were too short, deliveries of a
	// dead instance would wait for ever.
	takeoverWithin = 10 * time.Second
	// againWithin is the time until the next tick if another instance works, because it may
	// die.
	againWithin = time.Minute
)

// Options are the dependencies of a Ticker: queries of the engine, and of the parts beside
// it. All fields are needed.
type Options struct {
	Permits  int                                                                             // 0: this instance attempts nothing
	Rouse    func()                                                                          // has the engine go on at once where the process stood still
	Doing    func() engine.Doing                                                             // what this instance does, without asking the queue
	Upcoming func(ctx context.Context) (dispatcher.Upcoming, error)                          // when there is something to do next
	Others   func(ctx context.Context) (inFlight map[string]int, silent []string, err error) // how much other instances hold; silent ones may be dead
	Now      func() time.Time                                                                // by the queue's clock
	Jobs     func() (busy bool, holders []string)                                            // whether a job moves on here, and which others have one
	Notices  func() bool                                                                     // whether there are notices to send
	Outbox   func() bool                                                                     // whether there is something to relay, as far as is known
}

// Ticker does all due work inside one call.
type Ticker struct{ o Options }

// New makes a Ticker.
func New(o Options) *Ticker { return &Ticker{o} }

// Tick waits until nothing is due any more, or within is over. It counts all that
// this instance did meanwhile.
func (t *Ticker) Tick(ctx context.Context, within time.Duration) (dispatcher.Tick, error) {
	if t.o.Permits == 0 {
		return dispatcher.Tick{}, dispatcher.ErrAcceptsOnly
	}
	began, before := time.Now(), t.o.Doing()
	t.o.Rouse()
	for {
		looked := time.Now()
		f := t.look(ctx)
		left := f.within(within) - time.Since(began)
		switch {
		case callers.CrowdedOut(ctx): // as if its time were over
			return t.answer(f, before)
		case ctx.Err() != nil:
			return dispatcher.Tick{}, ctx.Err()
		case t.o.Doing().Stopping:
			return dispatcher.Tick{}, dispatcher.ErrStopping
		case f.done() || left <= 0:
			return t.answer(f, before)
		}
		t.wait(ctx, f.pause(time.Since(looked)), left)
	}
}

// answer says what became of it. An error of a part of the queue hides nothing: the next
// tick may come at once.
func (t *Ticker) answer(f found, before engine.Doing) (dispatcher.Tick, error) {
	if whole := outage.Whole(f.err); whole != nil {
		return dispatcher.Tick{}, fmt.Errorf("tick: %w", whole)
	}
	after := t.o.Doing()
	return dispatcher.Tick{
		Attempted: after.Attempted - before.Attempted, Delivered: after.Delivered - before.Delivered, Dead: after.Dead - before.Dead,
		Next: f.next(t.o.Now().Truncate(time.Millisecond)),
	}, nil
}

// found is the work that one query found.
type found struct {
	busy     bool // this instance has something in hand, or had while it looked
	upcoming dispatcher.Upcoming
	silent   bool // an instance that holds something may be dead
	others   bool // another instance holds something
	err      error
}

// look reads what there is to do. What this instance takes meanwhile may be seen nowhere,
// so it counts as busy.
func (t *Ticker) look(ctx context.Context) (f found) {
	call, cancel := outage.Within(ctx)
	defer cancel()
	before := t.o.Doing()
	if f.upcoming, f.err = t.o.Upcoming(call); f.err == nil {
		f.silent, f.others, f.err = t.elsewhere(call)
	}
	jobs, _ := t.o.Jobs()
	notices, outbox := t.o.Notices(), t.o.Outbox()
	after := t.o.Doing()
	f.busy = before.Busy || after.Busy || after.Taken != before.Taken || jobs || notices || outbox
	return f
}

// elsewhere reports whether other instances hold something, and whether one of them may be
// dead.
func (t *Ticker) elsewhere(ctx context.Context) (silent, others bool, err error) {
	inFlight, mute, err := t.o.Others(ctx)
	_, holders := t.o.Jobs()
	holds := func(name string) bool { return inFlight[name] > 0 || slices.Contains(holders, name) }
	for name := range inFlight {
		others = others || holds(name)
	}
	return slices.ContainsFunc(mute, holds), others, err
}

// atOnce reports whether the queue has something that may be attempted at once.
func (f *found) atOnce() bool { return !f.upcoming.At.IsZero() && f.upcoming.Wait <= 0 }

// paced reports whether it is waited for a rate.
func (f *found) paced() bool { return f.upcoming.Paced > 0 && f.upcoming.Paced <= pacedMost }

func (f *found) done() bool { return !f.busy && !f.silent && f.err == nil && !f.atOnce() && !f.paced() }

// within is how long the tick may last.
func (f *found) within(asked time.Duration) time.Duration {
	if f.silent {
		return max(asked, takeoverWithin)
	}
	return asked
}

// pause is the time until the next query, after one that took that time.
func (f *found) pause(took time.Duration) time.Duration {
	pause := max(readLeast, readPart*took)
	if !f.busy && !f.silent && f.err == nil && !f.atOnce() {
		pause = max(pause, f.upcoming.Paced)
	}
	return pause
}

// next is when to tick again; zero: when there is something new.
func (f *found) next(now time.Time) time.Time {
	next := f.upcoming.At
	if !f.done() {
		next = now
	}
	if soon := now.Add(againWithin); f.others && (next.IsZero() || next.After(soon)) {
		next = soon
	}
	return next
}

// wait waits for pause, and then until no delivery is in hand, but no longer than left.
func (t *Ticker) wait(ctx context.Context, pause, left time.Duration) {
	over := time.NewTimer(left)
	defer over.Stop()
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-over.C:
			return
		case <-next.C:
		}
		if d := t.o.Doing(); !d.Busy || d.Stopping {
			return
		}
		next.Reset(handsEvery)
	}
}
