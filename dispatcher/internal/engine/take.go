package engine

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// claimer leases what is ready: permits first, then a claim of that many.
type claimer struct {
	engine *Engine
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
		if errors.Is(err, dispatcher.ErrNothing) {
			continue // what was there was claimed, or lost, while permits were gathered
		}
		c.learn(got, err)
		if errors.Is(err, dispatcher.ErrFenced) {
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
	if errors.Is(err, dispatcher.ErrUnavailable) {
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
	call, cancel := outage.Within(context.WithoutCancel(ctx))
	defer cancel()
	under := e.leases.enter()
	claimed, err := e.queue.Claim(call, name, got, e.permits.free()+got)
	e.leased(under, claimed)
	if err != nil && !errors.Is(err, dispatcher.ErrNothing) {
		e.unsure()
	}
	e.permits.release(got - len(claimed))
	e.begin(ctx, claimed)
	return err
}

// leased ends a call that may have leased something, and remembers what it did.
func (e *Engine) leased(c *callGroup, claimed []dispatcher.Claimed) {
	if len(claimed) > 0 {
		e.rounds.Store(roundsAfter)
	}
	e.leases.leave(c, claimed)
}

// begin has leased deliveries attempted. Those whose endpoints may not be called go
// back.
func (e *Engine) begin(ctx context.Context, leased []dispatcher.Claimed) {
	at := slices.IndexFunc(leased, func(c dispatcher.Claimed) bool { return c.ID.Lane.IsEndpoint() })
	if at < 0 {
		e.attempt(leased...)
		return
	}
	bare, known := append([]dispatcher.Claimed{}, leased[:at]...), []dispatcher.Claimed{}
	for _, c := range leased[at:] {
		if c.ID.Lane.IsEndpoint() {
			known = append(known, c)
		} else {
			bare = append(bare, c)
		}
	}
	e.attempt(bare...) // they wait for nothing
	may, back, err := e.endpoints.CheckVersions(ctx, known)
	e.attempt(may...)
	e.permits.release(len(back))
	e.settler.put(back...)
	e.outages.Report("admit", err)
	if err != nil {
		outage.Pause(ctx, 1) // what went back is ready at once, and would be claimed in a circle
	}
}

// attempt gives deliveries to the workers, or hands them back where nothing new is
// started any more.
func (e *Engine) attempt(leased ...dispatcher.Claimed) {
	size, first := int64(0), -1
	for i := range leased {
		switch m := leased[i].Message; {
		case m == nil:
		case m.Apart == nil:
			size += int64(len(m.Body))
		case first < 0:
			first = i
		}
	}
	if first >= 0 {
		leased = e.load(leased)
	}
	e.loader.small.Add(size)
	if !e.workers.start(leased...) {
		e.loader.small.Add(-size)
		e.handBack(leased)
	}
}

// load gives those with large bodies to the loader, and answers the others.
func (e *Engine) load(leased []dispatcher.Claimed) (rest []dispatcher.Claimed) {
	var apart []dispatcher.Claimed
	for i := range leased {
		if large(&leased[i]) {
			apart = append(apart, leased[i])
		} else {
			rest = append(rest, leased[i])
		}
	}
	if !e.loader.put(apart) {
		e.handBack(apart)
	}
	return rest
}

// handBack gives up leases whose attempts were not begun.
func (e *Engine) handBack(leased []dispatcher.Claimed) {
	back := make([]dispatcher.Settlement, len(leased))
	for i, c := range leased {
		back[i] = dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due, Leased: c.Leased}
	}
	e.permits.release(len(back))
	e.settler.put(back...)
}

// permits bound what an instance has leased. One is taken before a lease is
// asked for, and given back when the attempt's answer is there.
type permits struct {
	total int
	sem   *semaphore.Weighted
	held  atomic.Int64
	asked atomic.Bool   // somebody waits for freed
	freed chan struct{} // 1 deep
}

func newPermits(total int) *permits {
	return &permits{total: total, sem: semaphore.NewWeighted(int64(total)), freed: make(chan struct{}, 1)}
}

// free is how many are not held now.
func (p *permits) free() int { return p.total - int(p.held.Load()) }

// try takes up to n permits without waiting.
func (p *permits) try(n int) int {
	n = min(n, p.free())
	for n > 0 && !p.sem.TryAcquire(int64(n)) {
		n /= 2 // others were quicker
	}
	p.held.Add(int64(max(n, 0)))
	return max(n, 0)
}

// Claims are asked for gatherLeast deliveries or more where that takes no
// longer than gatherWait: measured, it makes batches of 50 out of such of 25.
const (
	gatherLeast = 32
	gatherWait  = time.Millisecond
)

// gather takes up to n permits: one it waits for, a few more for a moment.
// It answers 0 when ctx has ended.
func (p *permits) gather(ctx context.Context, n int) int {
	if p.sem.Acquire(ctx, 1) != nil {
		return 0
	}
	p.held.Add(1)
	got := 1 + p.try(n-1)
	least := min(n, gatherLeast, p.total/2)
	if got >= least {
		return got
	}
	timer := time.NewTimer(gatherWait)
	defer timer.Stop()
	for got < least {
		p.asked.Store(true)
		if got += p.try(n - got); got >= least {
			break
		}
		select {
		case <-p.freed:
		case <-timer.C:
			return got + p.try(n-got)
		}
	}
	return got
}

// release gives n permits back.
func (p *permits) release(n int) {
	if n <= 0 {
		return
	}
	p.held.Add(int64(-n))
	p.sem.Release(int64(n))
	if p.asked.Load() && p.asked.CompareAndSwap(true, false) {
		signal(p.freed)
	}
}
