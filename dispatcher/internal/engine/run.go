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
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Run works until ctx ends. Then it leases nothing more, and hands back deliveries that were
// not begun. Running attempts may continue for the grace time, counted from Drain if that was
// called earlier. At the end it records the last outcomes and signs off. It returns nil after
// an orderly end. If the queue was repartitioned in the meantime, Run ends by itself in the
// same way, and returns an ErrMoved.
//
// No accepted message depends on an orderly end, because other instances take over the leases
// after a kill.
func (e *Engine) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(e.over, end)()
	defer context.AfterFunc(ctx, e.stop)()
	// The heartbeat and the settler continue until all attempts have ended.
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
	keeping.Go(func() error { return e.progress.Run(life) })
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

// Drain is the first part of the shutdown, in which callers still get responses. From now on
// Ready returns ErrStopping, nothing more is leased, and deliveries that were not begun go
// back. Drain returns when no attempt is running. The end of the grace time or of ctx cancels
// the attempts. It may be called again.
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

// leave tries once more to record the remaining outcomes. Then it hands back the leases that
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
		if !lost[l.ID] { // a hand-back would count its attempt as never made
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

// watching calls an observer, if there is one. The process continues if the observer panics.
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

// A tick is a call that waits until nothing is due, see ticks.go. This file has its
// queries to the engine.

// tickCounts counts the work of this instance after its start.
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

// Doing is the current and past work of this instance.
type Doing struct {
	Busy      bool // it has leases, or it can't lease any now
	Taken     int  // number of all its leases until now
	Stopping  bool // it is stopping, and leases nothing more
	Attempted int  // attempts after its start; a retry counts again
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

// Rouse lets the engine continue at once after the process was suspended, because its timers
// are late and it may be declared dead. In a running process it costs next to nothing.
func (e *Engine) Rouse() {
	e.rouse.Set()
	e.trimmer.age()
}

// Upcoming returns the time of the next work. The mover and the claimer use it too.
func (e *Engine) Upcoming(ctx context.Context) (dispatcher.Upcoming, error) {
	return e.reads.Upcoming(ctx)
}

// lately is how recent the last seen beat of a live instance has to be. It allows one late
// beat.
const lately = wait.BeatEvery + time.Second

// Others returns the number of leases of each other instance. silent are the instances without
// a recent beat. The next beat shows that such an instance is alive. It takes three beats to
// find it dead.
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

// othersAtOnce is the page size for reading instances.
const othersAtOnce = 100
