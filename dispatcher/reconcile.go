package dispatcher

import (
	"context"
	"log/slog"
	"time"
)

// When an instance compares what it holds with what the queue says it holds.
// Where an answer was lost that is after reconcileAfter, since a call that was
// given up may yet be carried out, and as long after the last lease as it takes
// to come round looksAfter times, the first of which may come at once: a failover
// may bring back what was settled. Where some partitions did not answer it is
// again after reconcileAgain, which leaves the promised minute.
const (
	reconcileAfter = time.Second
	reconcileAgain = 10 * time.Second
	reconcileEvery = 30 * time.Second
	looksAfter     = 3
)

// reconciler hands back leases that this instance does not know of. It is not the heart's
// work: it waits for calls to end that may hang, and the heart must not.
type reconciler struct{ engine *Engine }

// Run compares until ctx ends.
func (r *reconciler) Run(ctx context.Context) error {
	e := r.engine
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	wait := newIdleTimer()
	defer wait.Stop()
	waits := false
	least := reconcileAfter
	for failures := 0; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
			return nil
		case <-e.doubt:
			if !waits { // calls that go on failing must not put it off
				wait.Reset(least)
				waits = true
			}
			continue
		case <-wait.C:
			waits = false
		case <-tick.C:
			if e.rounds.Load() == 0 {
				continue
			}
			e.rounds.Add(-1)
		}
		err := r.reconcile(ctx)
		failures = e.goOn(ctx, "leases", failures, err)
		if least = reconcileAfter; err != nil {
			signal(e.doubt)
			if failures == 0 { // some did answer, and need not be asked so soon
				least = reconcileAgain
			}
		}
	}
	return nil
}

// reconcile hands back what the queue says this instance holds, but which it
// does not know of: a claim whose answer was lost, a settle that was forgotten.
func (r *reconciler) reconcile(ctx context.Context) error {
	e := r.engine
	unknown, err := e.leases.diff(ctx, func() ([]Lease, error) {
		call, cancel := within(ctx)
		defer cancel()
		return e.queue.Leases(call, e.name())
	})
	if len(unknown) > 0 {
		e.log.LogAttrs(ctx, slog.LevelInfo, "unknown leases handed back", slog.Int("deliveries", len(unknown)))
		e.settler.put(unbegun(unknown, e.queue.Now())...)
	}
	return err
}

// unbegun are the outcomes of what was never begun here. It is not known any more
// since when it was ready.
func unbegun(leases []Lease, due time.Time) []Settlement {
	back := make([]Settlement, len(leases))
	for i, l := range leases {
		back[i] = Settlement{ID: l.ID, Verdict: Back, Due: due, Leased: l.At}
	}
	return back
}
