package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

const (
	// readLeast is the minimum time between two polls of the queue. A tick that finds work
	// lasts at least that long.
	readLeast = 50 * time.Millisecond
	// readPart limits polling to a fifth of the time.
	readPart = 5
	// handsEvery is the interval for checking in memory whether deliveries are in flight.
	handsEvery = 5 * time.Millisecond
	// pacedMost is how long a tick waits for a lane whose rate delays ready deliveries. With
	// one attempt a tick the lane would be much slower than its rate. A longer wait is up to
	// the scheduler.
	pacedMost = 5 * time.Second
	// takeoverWithin is the time for finding an instance dead and taking over from it. A tick
	// that waits for this lasts at least that long, even with a shorter limit. If every tick
	// were too short, deliveries of a dead instance would wait for ever.
	takeoverWithin = 10 * time.Second
	// againWithin is the time until the next tick if another instance works, because it may
	// die.
	againWithin = time.Minute
)

// TickerOptions are the dependencies of a Ticker: queries of the engine, and of the parts beside it.
// All fields are required.
type TickerOptions struct {
	Permits  int                                                                             // 0: this instance attempts nothing
	Rouse    func()                                                                          // lets the engine continue at once after the process was suspended
	Doing    func() Doing                                                                    // the work of this instance, without a query to the queue
	Upcoming func(ctx context.Context) (dispatcher.Upcoming, error)                          // the time of the next work
	Others   func(ctx context.Context) (inFlight map[string]int, silent []string, err error) // the number of leases of other instances; silent ones may be dead
	Now      func() time.Time                                                                // the time by the queue's clock
	Jobs     func() (busy bool, holders []string)                                            // whether a job runs here, and which other instances run one
	Notices  func() bool                                                                     // whether there are notices to send
	Outbox   func() bool                                                                     // whether the outbox is known to have something to relay
}

// Ticker does all due work inside one call.
type Ticker struct{ o TickerOptions }

// NewTicker returns a Ticker.
func NewTicker(o TickerOptions) *Ticker { return &Ticker{o} }

// Tick waits until nothing is due, or within is over. It counts all that this instance did in
// the meantime.
func (t *Ticker) Tick(ctx context.Context, within time.Duration) (dispatcher.Tick, error) {
	if t.o.Permits == 0 {
		return dispatcher.Tick{}, dispatcher.ErrAcceptsOnly
	}
	began, before := time.Now(), t.o.Doing()
	t.o.Rouse()
	for {
		readAt := time.Now()
		f := t.read(ctx)
		left := f.within(within) - time.Since(began)
		switch {
		case callers.CrowdedOut(ctx): // treat this as the end of its time
			return t.answer(f, before)
		case ctx.Err() != nil:
			return dispatcher.Tick{}, ctx.Err()
		case t.o.Doing().Stopping:
			return dispatcher.Tick{}, dispatcher.ErrStopping
		case f.done() || left <= 0:
			return t.answer(f, before)
		}
		t.wait(ctx, f.pause(time.Since(readAt)), left)
	}
}

// answer returns the result of the tick. It ignores an error of a part of the queue, because
// the next tick may come at once.
func (t *Ticker) answer(f found, before Doing) (dispatcher.Tick, error) {
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
	busy     bool // this instance has work in hand, or had some during the query
	upcoming dispatcher.Upcoming
	silent   bool // an instance with leases or a job may be dead
	others   bool // another instance has leases or a job
	err      error
}

// read reads the work to do. If this instance took a delivery during the query, the query may
// have missed it, so the instance counts as busy.
func (t *Ticker) read(ctx context.Context) (f found) {
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

// elsewhere reports whether other instances have leases or jobs, and whether one of these
// instances may be dead.
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

// paced reports whether the tick waits for a lane's rate.
func (f *found) paced() bool { return f.upcoming.Paced > 0 && f.upcoming.Paced <= pacedMost }

func (f *found) done() bool { return !f.busy && !f.silent && f.err == nil && !f.atOnce() && !f.paced() }

// within returns the time limit of the tick.
func (f *found) within(asked time.Duration) time.Duration {
	if f.silent {
		return max(asked, takeoverWithin)
	}
	return asked
}

// pause returns the time until the next query, after one that took the given time.
func (f *found) pause(took time.Duration) time.Duration {
	pause := max(readLeast, readPart*took)
	if !f.busy && !f.silent && f.err == nil && !f.atOnce() {
		pause = max(pause, f.upcoming.Paced)
	}
	return pause
}

// next returns the time of the next tick. It is zero if no tick is needed until there is new
// work.
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

// wait waits for pause, and then until no delivery is in flight, but at most for left.
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
