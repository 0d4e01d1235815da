package dispatcher

import (
	"context"
	"errors"
	"log/slog"
)

// claimer leases what is ready: permits first, then a claim of that many.
type claimer struct {
	engine *engine
	batch  int // most deliveries one claim takes, in one partition
	most   int // in all, as far as claims were answered
	turn   int // the partition that is asked first, so that each comes first in turn
}

// Run claims until ctx ends.
func (c *claimer) Run(ctx context.Context) error {
	e := c.engine
	c.most = c.batch * maxPartitionsAtOnce
	for failures := 0; ctx.Err() == nil; {
		partitions, ok := c.wait(ctx)
		if !ok {
			continue
		}
		got := e.permits.gather(ctx, min(c.batch*min(len(partitions), maxPartitionsAtOnce), c.most))
		if got == 0 {
			return nil
		}
		name, ok := e.mayLease()
		if !ok || ctx.Err() != nil { // that changed while permits were gathered
			e.permits.release(got)
			continue
		}
		partitions = partitions[:min(len(partitions), max(1, got/claimLeast))]
		c.turn = partitions[len(partitions)-1] + 1
		err := c.claim(ctx, name, partitions, got)
		c.learn(got, err)
		if errors.Is(err, ErrFenced) {
			e.rename(name)
			err = nil
		}
		failures = e.goOn(ctx, "claim", failures, err)
	}
	return nil
}

// learn asks for half as many after a claim that was not answered, down to one:
// over a slow line a smaller answer may come in time. It grows back.
func (c *claimer) learn(asked int, err error) {
	if errors.Is(err, ErrUnavailable) {
		c.most = max(asked/2, 1)
	} else {
		c.most = min(2*c.most, c.batch*maxPartitionsAtOnce)
	}
}

// maxPartitionsAtOnce bounds a claim over many partitions, so that what it
// leases fits the permits that come free in a moment.
const maxPartitionsAtOnce = 4

// claimLeast is how many permits there have to be for each partition that is
// asked in one claim. A call costs much the same for a few deliveries as for
// many, and what is leased together is mostly settled together: with 128 busy
// partitions, five deliveries a call took Redis twice as long as whole batches.
const claimLeast = 32

// wait blocks until some partition may have something for this instance.
func (c *claimer) wait(ctx context.Context) (partitions []int, ok bool) {
	e := c.engine
	if _, may := e.mayLease(); may {
		free := e.permits.free()
		partitions, waiting := e.view.claimable(free, e.permits.total, c.turn)
		if len(partitions) > 0 && free > 0 {
			return partitions, true
		}
		if waiting {
			// Only a permit or news can change that; ask, and look once more.
			e.permits.asked.Store(true)
			if e.permits.free() != free {
				return nil, false
			}
		}
	}
	select {
	case <-ctx.Done():
	case <-e.view.ready:
	case <-e.permits.freed:
	case <-e.settled:
	}
	return nil, false
}

func (c *claimer) claim(ctx context.Context, name string, partitions []int, got int) error {
	e := c.engine
	free := e.permits.free() + got
	// The comparison of leases waits for its end. At the stop signal it goes on to its end: what it
	// leased could not be handed back without its answer.
	call, cancel := within(context.WithoutCancel(ctx))
	defer cancel()
	under := e.leases.enter()
	claimed, hints, err := e.queue.Claim(call, name, partitions, got, free)
	e.leased(under, claimed)
	if err != nil {
		e.unsure()
	}
	e.permits.release(got - len(claimed))
	e.answered(hints...) // before the attempts begin: they have their time from it
	e.begin(ctx, claimed)
	ended, lost, placed := 0, 0, 0
	for _, h := range hints {
		ended += h.Ended
		lost += h.Lost
		placed += h.Placed
	}
	e.trimmer.ended(ended, hints)
	if lost > 0 {
		e.log.LogAttrs(ctx, slog.LevelError, "deliveries without a message dropped", slog.Int("deliveries", lost))
	}
	if len(claimed)+ended+lost+placed == 0 && err == nil {
		e.view.stall(hints, free)
	}
	return err
}
