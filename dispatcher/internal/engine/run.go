package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// Run works until ctx ends. Then it takes no more, lets the attempts under way
// go on for the grace time, unless Drain did that before, hands back the rest,
// records the last outcomes and signs off. It returns nil after an orderly end.
// Where the queue is no longer as this instance found it, Run ends in the same
// way by itself, and returns an ErrMoved.
//
// No accepted message depends on an orderly end: when the process is killed, others
// take over its leases.
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
	taking.Go(func() error { return e.endpoints.Run(e.taking) })
	accepting.Go(func() error { return e.accepter.Run(ctx) })
	accepting.Go(func() error { return watch.Run(ctx) }) // a publish has to know the endpoints
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

// Drain is the first part of the end, while callers are still answered: from
// its beginning on Ready says so, nothing more is leased, and what was not begun
// goes back. It returns when no attempt is under way any more. They have the
// grace time, or until ctx ends, and are cut then. It may be called again.
func (e *Engine) Drain(ctx context.Context) {
	e.stop()
	e.drained.Do(func() {
		e.handBack(e.loader.close())
		e.handBack(e.workers.close())
		time.AfterFunc(e.options.Grace, e.cut)
	})
	defer context.AfterFunc(ctx, e.cut)()
	e.loader.wait()
	e.workers.wait()
}

// leave gives the outcomes that could not be recorded a last chance, hands back
// what the queue says is still held, and signs off. Where that fails others
// take over.
func (e *Engine) leave(ctx context.Context) {
	ctx, cancel := outage.Within(ctx)
	defer cancel()
	var err error
	lost := map[dispatcher.DeliveryID]bool{}
	if rest := e.settler.unrecorded(); len(rest) > 0 {
		if rest, err = e.settler.settle(ctx, rest); err != nil {
			e.log.Error("outcomes not recorded, their deliveries will be attempted again", "deliveries", len(rest), "err", err)
		}
		for _, o := range rest {
			lost[o.ID] = true
		}
	}
	leases, unread := e.queue.Leases(ctx, e.name())
	err = errors.Join(err, unread)
	var back []dispatcher.Lease
	for _, l := range leases {
		if !lost[l.ID] { // else its attempt would count as if it had never been made
			back = append(back, l)
		}
	}
	if len(back) > 0 {
		_, deaths, unsettled := e.queue.Settle(ctx, e.name(), unbegun(back, e.queue.Now()))
		e.bury(deaths, nil, nil)
		err = errors.Join(err, unsettled)
	}
	if err == nil {
		err = e.queue.Leave(ctx, e.name())
	}
	if err != nil {
		e.log.Warn("could not sign off, others will take over", "err", err)
	}
}

// watching tells an observer, where there is one. One that panics must not end
// the process.
type watching struct {
	observer dispatcher.Observer // nil: there is none
	log      *slog.Logger
}

func (w watching) tell(what func(o dispatcher.Observer)) {
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
