package dispatcher

import (
	"context"
	"errors"
)

// claimer leases what is ready: permits first, then a claim of that many.
type claimer struct {
	engine *engine
	batch  int // permits to gather for each batch that may be claimed
	most   int // in all, as far as claims were answered
}

// Run claims until ctx ends.
func (c *claimer) Run(ctx context.Context) error {
	e := c.engine
	c.most = c.batch * batchesAtOnce
	for failures := 0; ctx.Err() == nil; {
		batches, ok := c.wait(ctx)
		if !ok {
			continue
		}
		got := e.permits.gather(ctx, min(c.batch*batches, c.most))
		if got == 0 {
			return nil
		}
		name, ok := e.mayLease()
		if !ok || ctx.Err() != nil { // that changed while permits were gathered
			e.permits.release(got)
			continue
		}
		err := c.claim(ctx, name, got)
		if errors.Is(err, ErrNothing) {
			continue // what was there was claimed, or lost, while permits were gathered
		}
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
		c.most = min(2*c.most, c.batch*batchesAtOnce)
	}
}

// batchesAtOnce bounds a claim, so that what it leases fits the permits that come
// free in a moment.
const batchesAtOnce = 4

// wait blocks until there may be something for this instance.
func (c *claimer) wait(ctx context.Context) (batches int, ok bool) {
	e := c.engine
	if _, may := e.mayLease(); may {
		free := e.permits.free()
		batches, waiting := e.queue.Claimable(free)
		if batches > 0 && free > 0 {
			return min(batches, batchesAtOnce), true
		}
		if waiting {
			// Only a permit or news can change that; ask, and look once more.
			e.permits.asked.Store(true)
			if e.permits.free() != free {
				return 0, false
			}
		}
	}
	select {
	case <-ctx.Done():
	case <-e.ready:
	case <-e.permits.freed:
	case <-e.settled:
	}
	return 0, false
}

func (c *claimer) claim(ctx context.Context, name string, got int) error {
	e := c.engine
	// The comparison of leases waits for its end. At the stop signal it goes on to its end: what it
	// leased could not be handed back without its answer.
	call, cancel := within(context.WithoutCancel(ctx))
	defer cancel()
	under := e.leases.enter()
	claimed, err := e.queue.Claim(call, name, got, e.permits.free()+got)
	e.leased(under, claimed)
	if err != nil && !errors.Is(err, ErrNothing) {
		e.unsure()
	}
	e.permits.release(got - len(claimed))
	e.begin(ctx, claimed)
	return err
}
