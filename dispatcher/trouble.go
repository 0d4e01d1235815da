package dispatcher

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// trouble tells once that the queue can't be reached, and once that it can
// again: every loop meets the same fault, many times a second. The first call
// that works means that it is back. Where that was not so, since one stage goes
// on failing while others work, it is told only when nothing failed for calm.
type trouble struct {
	log *slog.Logger

	mu     sync.Mutex // guards what follows
	since  time.Time  // zero: all is well
	last   time.Time  // when a call failed
	back   time.Time  // when it was last told that all is well again; zero: never
	wary   bool       // that was wrong
	errors int
}

// calm is longer than a stage takes to fail again: it pauses for pauseMost, and
// its call takes settleWithin.
const calm = 10 * time.Second

func (t *trouble) note(stage string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && t.since.IsZero() {
		return
	}
	now := time.Now()
	switch {
	case err != nil && t.since.IsZero():
		t.wary = !t.back.IsZero() && now.Sub(t.back) < calm
		t.since, t.last, t.errors = now, now, 1
		t.log.Error("store lost", "stage", stage, "err", err)
	case err != nil:
		t.last = now
		t.errors++
	case !t.wary || now.Sub(t.last) >= calm:
		t.log.Info("store back", "stage", stage, "took", now.Sub(t.since).Round(time.Millisecond), "errors", t.errors)
		t.since, t.back = time.Time{}, now
	}
}

// Waits between repeats of a call that failed: they double from pauseFirst to
// pauseMost, so that a store that comes back is met soon and not by a crowd.
const (
	pauseFirst = 50 * time.Millisecond
	pauseMost  = 2 * time.Second
)

// pause waits before repeat n, from 1, or until ctx ends.
func pause(ctx context.Context, n int) {
	wait := min(pauseFirst<<min(n-1, 10), pauseMost)
	timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
