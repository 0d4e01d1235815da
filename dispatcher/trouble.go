package dispatcher

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// trouble tells once that the queue can't be reached, and once that it can
// again: every loop meets the same fault, many times a second.
type trouble struct {
	log *slog.Logger

	mu     sync.Mutex // guards what follows
	since  time.Time  // zero: all is well
	errors int
}

func (t *trouble) note(stage string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil && t.since.IsZero():
		t.since, t.errors = time.Now(), 1
		t.log.Error("store lost", "stage", stage, "err", err)
	case err != nil:
		t.errors++
	case !t.since.IsZero():
		t.log.Info("store back", "stage", stage, "took", time.Since(t.since).Round(time.Millisecond), "errors", t.errors)
		t.since = time.Time{}
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
