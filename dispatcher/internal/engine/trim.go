package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// A trim starts when trimAfter deliveries have ended, at most once in trimEvery.
const (
	trimAfter = 64
	trimEvery = 100 * time.Millisecond
)

// trimLeast is the minimum time between two trims by age while no delivery ends. A trim takes
// some 18 commands.
const trimLeast = 50 * time.Second

// trimmer deletes finished deliveries that are too old, or exceed the limit of kept ones.
type trimmer struct {
	engine *Engine
	keep   dispatcher.Keep

	mu    sync.Mutex           // guards the fields below
	count int                  // deliveries that ended after the last trim
	where dispatcher.TrimWhere // argument of the next trim
	works bool                 // a trim was requested, and has not ended
	aged  time.Time            // when a trim by age was last requested

	wake   wait.Signal
	logged cuts
}

// cuts remembers the log lines about deliveries that were deleted before their age.
type cuts struct {
	dead     bool
	finished time.Duration // lowest age that was logged; 0: none
}

func newTrimmer(e *Engine, keep dispatcher.Keep) *trimmer {
	return &trimmer{engine: e, keep: keep, wake: wait.NewSignal()}
}

// ended counts n deliveries that ended.
func (t *trimmer) ended(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count += n; t.count >= trimAfter {
		t.wake.Set()
	}
}

// left counts deliveries that ended and that the last trim left for a later one. A poll requests it, if
// no more deliveries end.
func (t *trimmer) left(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count += n
}

// age requests a trim by age of a part of the queue, even if no delivery ended there. It does
// nothing if there was such a trim just before and no delivery ended after it.
func (t *trimmer) age() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.count > 0 || now.Sub(t.aged) >= trimLeast {
		t.aged, t.where, t.works = now, dispatcher.TrimAged, true
		t.wake.Set()
	}
}

// busy reports whether a trim is requested or running.
func (t *trimmer) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.works
}

// rest records that a trim ended, unless another one was requested in the meantime.
func (t *trimmer) rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.works = t.where == dispatcher.TrimAged
}

func (t *trimmer) take() (where dispatcher.TrimWhere) {
	t.mu.Lock()
	defer t.mu.Unlock()
	where, t.where, t.count = t.where, dispatcher.TrimEnded, 0
	return where
}

// Run trims until ctx ends.
func (t *trimmer) Run(ctx context.Context) error {
	timer := newIdleTimer()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
		}
		t.trim(ctx, t.take())
		t.rest()
		timer.Reset(trimEvery)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// trim trims until nothing more is to be deleted. If the queue does not respond, the next poll
// wakes it again.
func (t *trimmer) trim(ctx context.Context, where dispatcher.TrimWhere) {
	e := t.engine
	for more := true; more && ctx.Err() == nil; where = dispatcher.TrimMore {
		call, cancel := outage.Within(ctx)
		trimmed, err := e.deliveries.Trim(call, e.name(), t.keep, where)
		cancel()
		t.left(trimmed.Left)
		if trimmed.Asked == 0 && err == nil {
			return
		}
		t.logCuts(ctx, trimmed)
		e.endpoints.Compare(ctx, trimmed.Unused)
		if outage.Whole(err) != nil {
			e.outages.Repeat(ctx, "trim", 0, err)
			return // the next poll wakes it again
		}
		e.outages.Continue(ctx, "trim", 0, err)
		more = trimmed.More
	}
}

// logCuts logs that deliveries are deleted before their age. For dead ones it logs once,
// because that continues as long as deliveries die. For finished ones it logs each time that
// the age has halved.
func (t *trimmer) logCuts(ctx context.Context, trimmed dispatcher.Trimmed) {
	if trimmed.DeadCut > 0 && !t.logged.dead {
		t.logged.dead = true
		t.engine.log.LogAttrs(ctx, slog.LevelWarn, "dead deliveries forgotten before their age",
			slog.Int("kept", t.keep.DeadMax), seconds("asked_s", t.keep.Dead), slog.String("cure", "raise DEAD_MAX, or lower DEAD_RETENTION"))
	}
	age := trimmed.CutAge
	if age > 0 && age < t.keep.Finished && (t.logged.finished == 0 || age <= t.logged.finished/2) {
		t.logged.finished = age
		t.engine.log.LogAttrs(ctx, slog.LevelWarn, "finished deliveries forgotten before their age",
			seconds("age_s", age), seconds("asked_s", t.keep.Finished),
			slog.String("cure", "raise RETENTION_MAX, or lower RETENTION"))
	}
}

// evictWithin limits an eviction, because publishes wait for it. Evictions are logged once in
// evictLogEvery, because they continue as long as memory is short.
const (
	evictWithin   = time.Second
	evictLogEvery = time.Hour
)

// evictor deletes finished deliveries before their age if the store has no memory left for new
// ones.
type evictor struct {
	engine *Engine

	turn   *semaphore.Weighted // one eviction at a time; guards the fields below
	logged time.Time
	failed time.Time // when the store last did not respond to an eviction
}

func newEvictor(e *Engine) *evictor {
	return &evictor{engine: e, turn: semaphore.NewWeighted(1)}
}

// makeRoom deletes the oldest finished deliveries until the wanted number was deleted, or
// there are none. It reports whether it is worth trying to publish once more. It takes at most
// evictWithin, the wait for its turn included. If the store does not respond, no eviction is tried for
// the same time, so publishes that wait for their turn fail together.
func (r *evictor) makeRoom(ctx context.Context, wanted int) bool {
	e := r.engine
	call, cancel := context.WithTimeout(ctx, evictWithin)
	defer cancel()
	if r.turn.Acquire(call, 1) != nil {
		return false
	}
	defer r.turn.Release(1)
	if time.Since(r.failed) < evictWithin {
		return false
	}
	for made := false; ; made = true {
		trimmed, err := e.deliveries.Trim(call, e.name(), e.trimmer.keep, dispatcher.TrimFull)
		if trimmed.Asked == 0 && err == nil {
			return made
		}
		e.outages.Report("trim", err)
		went := trimmed.Finished + trimmed.Seen
		switch {
		case went == 0 && err != nil:
			r.failed = time.Now()
			return false
		case went == 0:
			return true // another instance may have made room
		}
		r.logOnce(ctx)
		if wanted -= went; wanted <= 0 {
			return true
		}
	}
}

func (r *evictor) logOnce(ctx context.Context) {
	if !r.logged.IsZero() && time.Since(r.logged) < evictLogEvery {
		return
	}
	r.logged = time.Now()
	r.engine.log.LogAttrs(ctx, slog.LevelWarn, "memory full, finished deliveries forgotten to make room for new ones",
		slog.String("cure", "give the store more memory, or lower RETENTION"))
}
