package engine

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// What the tests outside the package need of its inside. Numbers first, so
// that the tests repeat none.
const (
	FlushLeast     = flushLeast
	FlushMost      = flushMost
	FlushLeases    = flushLeases
	SettleMost     = settleMost
	TrimAfter      = trimAfter
	SlowAfter      = slowAfter
	ReconcileEvery = reconcileEvery
	ReconcileAfter = reconcileAfter
	MostTests      = mostTests
	PollLeast      = pollLeast
	ReconcileAgain = reconcileAgain
)

// SetWall sets what the host's clock says; before Run only.
func (e *Engine) SetWall(wall func(time.Time) time.Time) { e.wall = wall }

// Find has endpoints found by their ids, in the store where they are not known.
func (e *Engine) Find(ctx context.Context, ids ...string) error {
	_, err := e.endpoints.Cache.Load(ctx, ids...)
	return err
}

// Matching has a tenant's endpoints found.
func (e *Engine) Matching(ctx context.Context, tenant string) (int, error) {
	list, err := e.endpoints.Cache.Matching(ctx, tenant, "a")
	return len(list), err
}

// FreePermits is how many permits are free.
func (e *Engine) FreePermits() int { return e.permits.free() }

// GaveUp tells the engine that data which the store lost were given up.
func (e *Engine) GaveUp() { e.emptied(nil) }

// TakePermits takes up to n permits away, as others would.
func (e *Engine) TakePermits(n int) int { return e.permits.try(n) }

// GivePermits gives n permits back.
func (e *Engine) GivePermits(n int) { e.permits.release(n) }

// Leases is how many leases the instance believes it has.
func (e *Engine) Leases() int {
	e.leases.mu.Lock()
	defer e.leases.mu.Unlock()
	return len(e.leases.unsettled)
}

// Waiting is how many outcomes wait to be recorded.
func (e *Engine) Waiting() int {
	defer func() {
		e.settler.mu.Lock()
		e.settler.over = false
		e.settler.mu.Unlock()
	}()
	return len(e.settler.unrecorded())
}

// Workers is a gate with a number of places that a test chooses.
type Workers struct{ g *workers }

// NewWorkers makes a Gate; 0 places are as many as the machine has.
func NewWorkers(places int, run func(dispatcher.Claimed)) *Workers {
	g := newWorkers(func(c *dispatcher.Claimed) { run(*c) })
	if places > 0 {
		g.slots = places
	}
	return &Workers{g: g}
}

func (g *Workers) Put(tasks ...dispatcher.Claimed) { g.g.start(tasks...) }
func (g *Workers) Run(ctx context.Context) error   { return g.g.Run(ctx) }
func (g *Workers) Close() []dispatcher.Claimed     { return g.g.close() }
func (g *Workers) Wait()                           { g.g.wait() }

// Room is how many tasks the gate has memory for.
func (g *Workers) Room() int {
	g.g.mu.Lock()
	defer g.g.mu.Unlock()
	return cap(g.g.queue)
}

// SealedWaits are the waits of messages that no key opens.
type SealedWaits struct{ sealedWaits }

// Next is next.
func (w *SealedWaits) Next(now time.Time) time.Duration { return w.next(now) }
