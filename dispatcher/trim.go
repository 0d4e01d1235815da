package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Trimming follows the work: after trimAfter deliveries ended in any of the
// partitions, and not more often than trimEvery.
const (
	trimAfter = 64
	trimEvery = 100 * time.Millisecond
)

// trimmer forgets finished work that is too old or too much.
type trimmer struct {
	engine *engine
	keep   Keep

	mu      sync.Mutex // guards what follows
	count   int        // deliveries that ended since the last trim
	touched map[int]bool

	wake chan struct{} // 1 deep
	told bool          // that dead work was cut before its age
}

func newTrimmer(e *engine, keep Keep) *trimmer {
	return &trimmer{engine: e, keep: keep, touched: map[int]bool{}, wake: make(chan struct{}, 1)}
}

// ended counts n deliveries that ended in the partitions of hints.
func (t *trimmer) ended(n int, hints []Hint) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count += n
	for _, h := range hints {
		t.touched[h.Partition] = true
	}
	if t.count >= trimAfter {
		signal(t.wake)
	}
}

// look trims a partition at the next turn, whatever happened in it: age goes
// on without work.
func (t *trimmer) look(partition int) {
	t.mu.Lock()
	t.touched[partition] = true
	t.mu.Unlock()
	signal(t.wake)
}

func (t *trimmer) take() (partitions []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range t.touched {
		partitions = append(partitions, n)
	}
	t.touched, t.count = map[int]bool{}, 0
	return partitions
}

// Run trims until ctx ends.
func (t *trimmer) Run(ctx context.Context) error {
	timer := newIdleTimer()
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
		}
		partitions := t.take()
		for more := len(partitions) > 0; more && ctx.Err() == nil; {
			call, cancel := within(ctx)
			trimmed, err := t.engine.queue.Trim(call, t.engine.name(), partitions, t.keep, false)
			cancel()
			failures = t.engine.repeat(ctx, "trim", failures, err)
			more = err == nil && trimmed.More
			if trimmed.DeadCut > 0 && !t.told {
				t.told = true // once: it goes on as long as deaths do
				t.engine.log.LogAttrs(ctx, slog.LevelWarn, "dead deliveries forgotten before their age", slog.Int("kept", t.keep.DeadMax))
			}
		}
		timer.Reset(trimEvery)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}
