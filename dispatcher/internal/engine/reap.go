package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// reaper takes over the leases of dead instances. It has its own goroutine, because the
// heartbeat must not wait for a queue that hangs.
type reaper struct {
	engine *Engine

	mu   sync.Mutex // guards dead
	dead []string   // dead instances according to the last beat

	wake wait.Signal
	back wait.Signal // there may be orphans
}

func newReaper(e *Engine) *reaper {
	return &reaper{engine: e, wake: wait.NewSignal(), back: wait.NewSignal()}
}

// suspect requests a query for orphans. Orphans are leases of instances that are gone, so
// their heartbeats are no longer read. A replica that took over may have brought them back.
func (r *reaper) suspect() { r.back.Set() }

// put sets the dead instances. If taking over from one fails, the next beat reports it again.
func (r *reaper) put(dead []string) {
	r.mu.Lock()
	r.dead = dead
	r.mu.Unlock()
	if len(dead) > 0 {
		r.wake.Set()
	}
}

// take returns the next dead instance, if there is one.
func (r *reaper) take() (name string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.dead) == 0 {
		return "", false
	}
	name, r.dead = r.dead[0], r.dead[1:]
	return name, true
}

// orphansAgain is the time until the next query for orphans if a part of the queue did not
// respond.
const orphansAgain = 5 * time.Second

// Run takes over until ctx ends.
func (r *reaper) Run(ctx context.Context) error {
	again := newIdleTimer()
	defer again.Stop()
	for ctx.Err() == nil {
		if name, ok := r.take(); ok {
			if taken, ok := r.reap(ctx, name); ok {
				r.engine.notify(lost(name, taken))
			}
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

// reapOrphans takes over from instances that are gone but have leases. It reports whether the
// whole queue responded.
func (r *reaper) reapOrphans(ctx context.Context) bool {
	e := r.engine
	e.progress.reap.begin()
	defer e.progress.reap.end()
	call, cancel := outage.Within(ctx)
	defer cancel()
	names, err := e.instances.Orphans(call)
	for _, name := range names {
		r.reap(ctx, name)
	}
	if ctx.Err() == nil {
		e.outages.Report("strays", err)
	}
	return err == nil
}

// lost returns the news that an instance died. Other instances may publish the same news.
func lost(name string, taken int) dispatcher.News {
	sum := sha256.Sum256([]byte(name))
	return dispatcher.News{Notice: dispatcher.NoticeLost, Key: hex.EncodeToString(sum[:8]), Count: taken, Detail: name}
}

// reap takes over from an instance. It returns the number of moved deliveries, and whether all
// leases were moved.
func (r *reaper) reap(ctx context.Context, name string) (taken int, ok bool) {
	e := r.engine
	e.progress.reap.begin()
	defer e.progress.reap.end()
	call, cancel := outage.Within(ctx)
	defer cancel()
	taken, err := e.instances.Reap(call, e.name(), name)
	if ctx.Err() == nil {
		e.outages.Continue(ctx, "reap", 0, err)
	}
	if err == nil || taken > 0 { // parts that did not respond are reaped the next time
		e.log.LogAttrs(ctx, slog.LevelInfo, "takeover", slog.String("instance", name), slog.Int("deliveries", taken))
		e.watching.observe(func(o dispatcher.Observer) { o.TookOver(taken) })
	}
	e.pollSoon()          // events that it did not publish are lost
	e.endpoints.Suspect() // it may have died in the middle of a change of an endpoint
	return taken, err == nil
}
