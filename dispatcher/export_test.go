package dispatcher

import (
	"context"
	"errors"
	"time"
)

// What the tests outside the package need of its inside. Numbers first, so
// that the tests repeat none.
const (
	FlushMost      = flushMost
	SettleMost     = settleMost
	TrimAfter      = trimAfter
	SlowAfter      = slowAfter
	ReconcileEvery = reconcileEvery
	ReconcileAfter = reconcileAfter
	Calm           = calm
	PauseMost      = pauseMost
	MostTests      = mostTests
	LookLeast      = lookLeast
	ReconcileAgain = reconcileAgain
	MostKnown      = mostKnown
)

// SetWall sets what the host's clock says; before Run only.
func (d *Dispatcher) SetWall(wall func(time.Time) time.Time) { d.engine.wall = wall }

// QueueNow is what time it is by the queue's clock.
func (d *Dispatcher) QueueNow() time.Time { return d.engine.queue.Now() }

// Find has endpoints found by their ids, in the store where they are not known.
func (d *Dispatcher) Find(ctx context.Context, ids ...string) error {
	_, err := d.engine.endpoints.Cache.Load(ctx, ids...)
	return err
}

// Matching has a tenant's endpoints found.
func (d *Dispatcher) Matching(ctx context.Context, tenant string) (int, error) {
	list, err := d.engine.endpoints.Cache.Matching(ctx, tenant, "a")
	return len(list), err
}

// FreePermits is how many permits are not held.
func (d *Dispatcher) FreePermits() int { return d.engine.permits.free() }

// TakePermits takes up to n permits away, as others would.
func (d *Dispatcher) TakePermits(n int) int { return d.engine.permits.try(n) }

// GivePermits gives n permits back.
func (d *Dispatcher) GivePermits(n int) { d.engine.permits.release(n) }

// Held is how many leases the instance believes it has.
func (d *Dispatcher) Held() int { return d.engine.leases.count() }

// Settle gives outcomes to the settler.
func (d *Dispatcher) Settle(outcomes ...Settlement) { d.engine.settler.put(outcomes...) }

// Waiting is how many outcomes wait to be recorded.
func (d *Dispatcher) Waiting() int { return len(d.engine.settler.rest()) }

// Name is what the instance is called in the queue now.
func (d *Dispatcher) Name() string { return d.engine.name() }

// Workers is a gate with a number of places that a test chooses.
type Workers struct{ g *workers }

// NewWorkers makes a Gate; 0 places are as many as the machine has.
func NewWorkers(places int, run func(Claimed)) *Workers {
	g := newWorkers(run)
	if places > 0 {
		g.slots = places
	}
	return &Workers{g: g}
}

func (g *Workers) Put(tasks ...Claimed)          { g.g.start(tasks...) }
func (g *Workers) Run(ctx context.Context) error { return g.g.Run(ctx) }
func (g *Workers) Close() []Claimed              { return g.g.close() }
func (g *Workers) Wait()                         { g.g.wait() }

// Room is how many tasks the gate has memory for.
func (g *Workers) Room() int {
	g.g.mu.Lock()
	defer g.g.mu.Unlock()
	return cap(g.g.queue)
}

// MostSuccesses bounds the texts that are remembered, KnownSuccesses counts them.
const MostSuccesses = mostSuccesses

func KnownSuccesses() int {
	successes.mu.RLock()
	defer successes.mu.RUnlock()
	return len(successes.known)
}

// PatternSteps reads a pattern past the cache and weighs it.
func PatternSteps(pattern string) (int, error) {
	if len(pattern) > maxRegexp {
		return 0, errors.New("too long")
	}
	m, err := newMatchRule(pattern)
	return m.steps, err
}
