package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// A tick is a call that waits until nothing is due, see package ticks. This file has its
// queries to the engine.

// tickCounts count the work of this instance since its start.
type tickCounts struct{ attempted, delivered, dead atomic.Int64 }

// settled counts an attempt whose outcome was recorded.
func (t *tickCounts) settled(o *dispatcher.Settlement, s *dispatcher.Settled) {
	if s.Err != nil || o.Attempt.Number == 0 {
		return
	}
	t.attempted.Add(1)
	if o.Verdict == dispatcher.Delivered && s.Result != dispatcher.SettledLate {
		t.delivered.Add(1)
	}
}

// Doing is the work of this instance.
type Doing struct {
	Busy      bool // deliveries are in hand, or it can't lease any just now
	Taken     int  // deliveries that it ever had in hand
	Stopping  bool // it leases nothing more
	Attempted int  // since it began; a retry counts again
	Delivered int
	Dead      int
}

// Doing reports the work of this instance. It does not query the queue.
func (e *Engine) Doing() Doing {
	_, may := e.mayLease()
	some, taken := e.leases.inHand()
	return Doing{
		Busy: some || !may || e.trimmer.busy() || e.endpoints.Busy(), Taken: taken, Stopping: e.taking.Err() != nil,
		Attempted: int(e.tally.attempted.Load()), Delivered: int(e.tally.delivered.Load()), Dead: int(e.tally.dead.Load()),
	}
}

// Rouse has the engine go on at once where the process stood still: its timers are late, and
// it may be taken for dead. Where the process is awake it costs next to nothing.
func (e *Engine) Rouse() {
	e.rouse.Set()
	e.trimmer.age()
}

// Upcoming returns the time of the next work. The mover and the claimer learn of it too.
func (e *Engine) Upcoming(ctx context.Context) (dispatcher.Upcoming, error) {
	return e.reads.Upcoming(ctx)
}

// lately is how long ago the last beat of an instance was seen that counts as alive: one
// beat may be late.
const lately = dispatcher.BeatEvery + time.Second

// Others reads how much the other instances hold, by their names. silent are the ones
// without a beat lately: it takes until the next beat to find out that one is alive, or three
// to find it dead.
func (e *Engine) Others(ctx context.Context) (inFlight map[string]int, silent []string, err error) {
	e.seen.mu.Lock()
	alone := len(e.seen.others) == 0
	e.seen.mu.Unlock()
	if alone {
		return nil, nil, nil
	}
	inFlight = map[string]int{}
	for cursor := ""; ; {
		list, next, err := e.reads.Instances(ctx, othersAtOnce, cursor)
		if err != nil {
			return nil, nil, err
		}
		for _, i := range list {
			inFlight[i.Name] = i.InFlight
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	delete(inFlight, e.name())
	return inFlight, e.seen.silent(e.store.Now().Add(-lately)), nil
}

// othersAtOnce is how many instances are read at a time.
const othersAtOnce = 100
