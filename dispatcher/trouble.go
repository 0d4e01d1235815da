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
// that works means that it is back. Where that was not so, since one stage or
// some partitions go on failing while others work, it is told only when nothing
// failed for calm.
type trouble struct {
	log        *slog.Logger
	lost, back string // what is told
	partitions int    // that there are

	mu     sync.Mutex // guards what follows
	since  time.Time  // zero: all is well
	last   time.Time  // when a call failed
	told   time.Time  // when it was last told that all is well again; zero: never
	wary   bool       // that was wrong, or would be
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
	failed, rest := partitionErrors(err)
	some := rest == nil && len(failed) > 0 && len(failed) < t.partitions
	switch {
	case err != nil && t.since.IsZero():
		t.wary = some || !t.told.IsZero() && now.Sub(t.told) < calm
		t.since, t.last, t.errors = now, now, 1
		t.tell(stage, failed, rest)
	case err != nil:
		t.wary = t.wary || some
		t.last = now
		t.errors++
	case !t.wary || now.Sub(t.last) >= calm:
		t.log.Info(t.back, "stage", stage, "took", now.Sub(t.since).Round(time.Millisecond), "errors", t.errors)
		t.since, t.told = time.Time{}, now
	}
}

// tell says what failed: of many partitions their number and one reason.
func (t *trouble) tell(stage string, failed []*PartitionError, rest error) {
	if rest != nil {
		t.log.Error(t.lost, "stage", stage, "err", rest)
		return
	}
	t.log.Error(t.lost, "stage", stage, "partitions", len(failed), "of", t.partitions, "err", failed[0])
}

// Waits between repeats of a call that failed: they double from pauseFirst to
// pauseMost, so that a store that comes back is met soon and not by a crowd.
const (
	pauseFirst = 50 * time.Millisecond
	pauseMost  = 2 * time.Second
)

// waitBefore is the wait before repeat n, from 1.
func waitBefore(n int) time.Duration {
	wait := min(pauseFirst<<min(n-1, 10), pauseMost)
	return wait/2 + rand.N(wait/2+1)
}

// pause waits before repeat n, or until ctx ends.
func pause(ctx context.Context, n int) { sleep(ctx, waitBefore(n)) }

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
