package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/beats"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// Run works until ctx ends. Then it leases nothing more, and hands back deliveries that
// were not begun. Running attempts may continue for the grace time, which begins earlier if Drain
// was called. At last it records the last outcomes and signs off. It returns nil after
// an orderly end. Where the queue was repartitioned meanwhile, Run ends by itself in the
// same way, and returns an ErrMoved.
//
// No accepted message depends on an orderly end: after a kill other instances take over
// the leases.
func (e *Engine) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(e.over, end)()
	defer context.AfterFunc(ctx, e.stop)()
	// The heartbeat and the settler outlive the attempts.
	life, die := context.WithCancel(context.WithoutCancel(ctx))
	defer die()
	watch := &watcher{engine: e, pollEvery: e.options.PollEvery}

	var taking, accepting, keeping errgroup.Group
	taking.Go(func() error { return (&mover{engine: e}).Run(e.taking) })
	if e.options.MaxInFlight > 0 {
		taking.Go(func() error { return (&claimer{engine: e, batch: max(e.options.ClaimBatch, 1)}).Run(e.taking) })
	}
	taking.Go(func() error { return watch.Poll(e.taking) })
	taking.Go(func() error { return e.trimmer.Run(e.taking) })
	taking.Go(func() error { return e.network.Run(e.taking) })
	taking.Go(func() error { return e.endpoints.Run(e.taking) })
	accepting.Go(func() error { return e.accepter.Run(ctx) })
	accepting.Go(func() error { return watch.Run(ctx) }) // a publish needs the cache of endpoints
	keeping.Go(func() error { return e.workers.Run(life) })
	keeping.Go(func() error { return newHeartbeat(e).Run(life) })
	keeping.Go(func() error { return e.dead.Run(life) })
	keeping.Go(func() error { return (&reconciler{engine: e}).Run(life) })
	keeping.Go(func() error { return e.settler.Run(life) })

	<-ctx.Done()
	var draining sync.WaitGroup
	draining.Go(func() { e.Drain(context.WithoutCancel(ctx)) })
	err := accepting.Wait()
	close(e.stopped)
	draining.Wait()
	err = errors.Join(err, taking.Wait())
	die()
	err = errors.Join(err, keeping.Wait())
	e.leave(context.WithoutCancel(ctx))
	e.deaths.end()
	return errors.Join(context.Cause(e.over), err)
}

// Drain is the first part of the shutdown, while callers are still answered. From now on
// Ready answers ErrUnavailable, nothing more is leased, and deliveries that were not begun go back.
// Drain returns when no attempt is under way any more. Attempts are cut at the end of
// the grace time or of ctx. It may be called again.
func (e *Engine) Drain(ctx context.Context) {
	e.stop()
	e.drained.Do(func() {
		e.handBack(e.loader.close(), 0)
		e.handBack(e.workers.close(), 0)
		time.AfterFunc(e.options.Grace, e.cut)
	})
	defer context.AfterFunc(ctx, e.cut)()
	e.loader.wait()
	e.workers.wait()
}

// leave tries once more to record the outcomes that are left, hands back the leases that
// the queue still has for this instance, and signs off. If that fails, other instances take
// over.
func (e *Engine) leave(ctx context.Context) {
	ctx, cancel := outage.Within(ctx)
	defer cancel()
	var err error
	lost := map[dispatcher.DeliveryID]bool{}
	if rest := e.settler.unrecorded(); len(rest) > 0 {
		if rest, err = e.settler.settle(ctx, rest); err != nil {
			e.log.Error("outcomes not recorded, their deliveries will be attempted again", "deliveries", len(rest), "err", err)
		}
		for i := range rest {
			lost[rest[i].ID] = true
			rest[i].report(dispatcher.Settled{Err: errOver})
		}
	}
	leases, unread := e.deliveries.Leases(ctx, e.name())
	err = errors.Join(err, unread)
	var back []dispatcher.Lease
	for _, l := range leases {
		if !lost[l.ID] { // handed back, its attempt would count as never made
			back = append(back, l)
		}
	}
	if len(back) > 0 {
		settled := e.deliveries.Settle(ctx, e.name(), unbegun(back, e.store.Now()))
		for i := range settled {
			if settled[i].Died != nil {
				e.died(*settled[i].Died, nil)
			}
		}
		err = errors.Join(err, failureOf(settled))
	}
	if err == nil {
		err = e.instances.Leave(ctx, e.name())
	}
	if err != nil {
		e.log.Warn("could not sign off, others will take over", "err", err)
	}
}

// watching calls an observer, where there is one. If the observer panics, the process
// goes on.
type watching struct {
	observer dispatcher.Observer // nil: there is none
	log      *slog.Logger
}

func (w watching) observe(what func(o dispatcher.Observer)) {
	if w.observer == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("observer panicked", "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	what(w.observer)
}

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
const lately = beats.Every + time.Second

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
