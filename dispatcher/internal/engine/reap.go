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

// reaper takes over the leases of dead instances. It has a goroutine of its own, since
// the heartbeat must not wait for a queue that hangs.
type reaper struct {
	engine *Engine

	mu   sync.Mutex // guards dead
	dead []string   // by the last beat

	wake wait.Signal
	back wait.Signal // there may be orphans
}

func newReaper(e *Engine) *reaper {
	return &reaper{engine: e, wake: wait.NewSignal(), back: wait.NewSignal()}
}

// suspect has orphans looked for: leases of instances that are gone, whose heartbeats are
// not read any more. A replica that took over may have brought them back.
func (r *reaper) suspect() { r.back.Set() }

// put sets the instances that are dead now. If taking over from one fails, the next beat
// finds it dead again.
func (r *reaper) put(dead []string) {
	r.mu.Lock()
	r.dead = dead
	r.mu.Unlock()
	if len(dead) > 0 {
		r.wake.Set()
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

// orphansAgain is the time until orphans are looked for again where a part of the queue
// did not answer.
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

// reapOrphans takes over from instances that are gone but hold leases. It reports whether
// the whole queue answered.
func (r *reaper) reapOrphans(ctx context.Context) bool {
	e := r.engine
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

// lost are the news that an instance died. Others may find that out too.
func lost(name string, taken int) dispatcher.News {
	sum := sha256.Sum256([]byte(name))
	return dispatcher.News{Notice: dispatcher.NoticeLost, Key: hex.EncodeToString(sum[:8]), Count: taken, Detail: name}
}

// reap takes over from an instance, and reports how many deliveries it moved, and whether
// nothing is left.
func (r *reaper) reap(ctx context.Context, name string) (taken int, ok bool) {
	e := r.engine
	call, cancel := outage.Within(ctx)
	defer cancel()
	taken, err := e.instances.Reap(call, e.name(), name)
	if ctx.Err() == nil {
		e.outages.Continue(ctx, "reap", 0, err)
	}
	if err == nil || taken > 0 { // parts that did not answer are reaped the next time
		e.log.LogAttrs(ctx, slog.LevelInfo, "takeover", slog.String("instance", name), slog.Int("deliveries", taken))
		e.watching.observe(func(o dispatcher.Observer) { o.TookOver(taken) })
	}
	e.pollSoon()          // the events that it did not publish are lost
	e.endpoints.Suspect() // it may have died in the middle of a change of an endpoint
	return taken, err == nil
}
