package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// A trim follows when trimAfter deliveries have ended, at most once in trimEvery.
const (
	trimAfter = 64
	trimEvery = 100 * time.Millisecond
)

// trimLeast is the least time between two trims by age while no delivery ends. A trim is
// some 18 commands.
const trimLeast = 50 * time.Second

// trimmer deletes finished deliveries that are too old, or more than may be kept.
type trimmer struct {
	engine *Engine
	keep   dispatcher.Keep

	mu    sync.Mutex           // guards the fields below
	count int                  // deliveries that ended since the last trim
	where dispatcher.TrimWhere // of the next trim
	works bool                 // a trim was asked for, and has not ended
	aged  time.Time            // when one by age was asked for last

	wake wait.Signal
	told cuts
}

// cuts remembers the log lines about deliveries that were deleted before their age.
type cuts struct {
	dead     bool
	finished time.Duration // the least age that was logged; 0: none was
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

// age has a part of the queue trimmed by age, even if nothing ended there, unless that was
// done just now and nothing ended since.
func (t *trimmer) age() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.count > 0 || now.Sub(t.aged) >= trimLeast {
		t.aged, t.where, t.works = now, dispatcher.TrimAged, true
		t.wake.Set()
	}
}

// busy reports whether it is to trim something now.
func (t *trimmer) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.works
}

// rest notes that a trim ended, unless another was asked for meanwhile.
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

// trim deletes all that there is to delete. Where the queue does not answer, the next poll
// wakes it again.
func (t *trimmer) trim(ctx context.Context, where dispatcher.TrimWhere) {
	e := t.engine
	for more := true; more && ctx.Err() == nil; where = dispatcher.TrimMore {
		call, cancel := outage.Within(ctx)
		trimmed, err := e.deliveries.Trim(call, e.name(), t.keep, where)
		cancel()
		if trimmed.Asked == 0 && err == nil {
			return
		}
		t.logCuts(ctx, trimmed)
		e.endpoints.Compare(ctx, trimmed.Looked)
		if outage.Whole(err) != nil {
			e.outages.Repeat(ctx, "trim", 0, err)
			return // the next poll wakes it again
		}
		e.outages.Continue(ctx, "trim", 0, err)
		more = trimmed.More
	}
}

// logCuts logs that deliveries are deleted before their age: for dead ones once, because that
// continues as long as deliveries die, for finished ones each time that the age has halved.
func (t *trimmer) logCuts(ctx context.Context, trimmed dispatcher.Trimmed) {
	if trimmed.DeadCut > 0 && !t.told.dead {
		t.told.dead = true
		t.engine.log.LogAttrs(ctx, slog.LevelWarn, "dead deliveries forgotten before their age",
			slog.Int("kept", t.keep.DeadMax), seconds("asked_s", t.keep.Dead), slog.String("cure", "raise DEAD_MAX, or lower DEAD_RETENTION"))
	}
	age := trimmed.CutAge
	if age > 0 && age < t.keep.Finished && (t.told.finished == 0 || age <= t.told.finished/2) {
		t.told.finished = age
		t.engine.log.LogAttrs(ctx, slog.LevelWarn, "finished deliveries forgotten before their age",
			seconds("age_s", age), seconds("asked_s", t.keep.Finished),
			slog.String("cure", "raise RETENTION_MAX, or lower RETENTION"))
	}
}

// Publishes wait for an eviction, so it takes evictWithin at most. It is logged once in
// evictTold, since evictions go on as long as memory is short.
const (
	evictWithin = time.Second
	evictTold   = time.Hour
)

// evictor deletes finished deliveries before their age where the store has no memory left
// for new ones.
type evictor struct {
	engine *Engine

	mu   sync.Mutex // one eviction at a time; guards told
	told time.Time
}

func newEvictor(e *Engine) *evictor {
	return &evictor{engine: e}
}

// makeRoom deletes the oldest finished deliveries until as many went as are wanted, or
// there are none. It reports whether it is worth trying to publish once more.
func (r *evictor) makeRoom(ctx context.Context, wanted int) bool {
	e := r.engine
	r.mu.Lock()
	defer r.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, evictWithin)
	defer cancel()
	for made := false; ; made = true {
		trimmed, err := e.deliveries.Trim(call, e.name(), e.trimmer.keep, dispatcher.TrimFull)
		if trimmed.Asked == 0 && err == nil {
			return made
		}
		e.outages.Report("trim", err)
		went := trimmed.Finished + trimmed.Seen
		switch {
		case went == 0 && err != nil:
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
	if !r.told.IsZero() && time.Since(r.told) < evictTold {
		return
	}
	r.told = time.Now()
	r.engine.log.LogAttrs(ctx, slog.LevelWarn, "memory full, finished deliveries forgotten to make room for new ones",
		slog.String("cure", "give the store more memory, or lower RETENTION"))
}
