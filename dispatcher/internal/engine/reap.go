package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// reaper takes over what dead instances hold. It has a goroutine of its own, since the
// heartbeat must not wait for a queue that hangs.
type reaper struct {
	engine *Engine

	mu   sync.Mutex // guards dead
	dead []string   // by the last reading

	wake chan struct{} // 1 deep
	back chan struct{} // 1 deep: leases of the departed may be back
}

func newReaper(e *Engine) *reaper {
	return &reaper{engine: e, wake: make(chan struct{}, 1), back: make(chan struct{}, 1)}
}

// suspect has it looked whether a node that took over brought back leases of
// instances that are gone: their numbers are not read any more.
func (r *reaper) suspect() { signal(r.back) }

// put says which instances are dead by now. One that is still known at the next
// reading, since taking over failed, is named again then.
func (r *reaper) put(dead []string) {
	r.mu.Lock()
	r.dead = dead
	r.mu.Unlock()
	if len(dead) > 0 {
		signal(r.wake)
	}
}

// take answers the next dead instance, if there is one.
func (r *reaper) take() (name string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.dead) == 0 {
		return "", false
	}
	name, r.dead = r.dead[0], r.dead[1:]
	return name, true
}

// orphansAgain is how soon it is looked for orphans once more where a part of the
// queue did not answer.
const orphansAgain = 5 * time.Second

// Run takes over until ctx ends.
func (r *reaper) Run(ctx context.Context) error {
	again := newIdleTimer()
	defer again.Stop()
	for ctx.Err() == nil {
		if name, ok := r.take(); ok {
			r.reap(ctx, name)
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-again.C:
			r.suspect()
		case <-r.back:
			if !r.reapOrphans(ctx) {
				again.Reset(orphansAgain)
			}
		}
	}
	return nil
}

// reapOrphans takes over from those that are gone and hold leases, and reports
// whether all of the queue was asked.
func (r *reaper) reapOrphans(ctx context.Context) bool {
	e := r.engine
	call, cancel := outage.Within(ctx)
	defer cancel()
	names, err := e.queue.Orphans(call)
	for _, name := range names {
		r.reap(ctx, name)
	}
	if ctx.Err() == nil {
		e.outages.Report("strays", err)
	}
	return err == nil
}

func (r *reaper) reap(ctx context.Context, name string) {
	e := r.engine
	call, cancel := outage.Within(ctx)
	defer cancel()
	taken, err := e.queue.Reap(call, e.name(), name)
	if ctx.Err() == nil {
		e.goOn(ctx, "reap", 0, err)
	}
	if err == nil || taken > 0 { // what those parts hold that did not answer is taken the next time
		e.log.LogAttrs(ctx, slog.LevelInfo, "takeover", slog.String("instance", name), slog.Int("deliveries", taken))
		e.watching.tell(func(o dispatcher.Observer) { o.TookOver(taken) })
	}
	e.pollSoon()          // its hints are lost with it
	e.endpoints.Suspect() // so may be the second half of a change that it made
}
