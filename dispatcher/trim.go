package dispatcher

import (
	"context"
	"log/slog"
	"slices"
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
	told cuts
}

// cuts is what was told of work that was forgotten before its age.
type cuts struct {
	dead     bool
	finished time.Duration // the least age; 0: nothing
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

// touch trims a partition at the next turn, whatever happened in it: age goes
// on without work.
func (t *trimmer) touch(partition int) {
	t.mu.Lock()
	t.touched[partition] = true
	t.mu.Unlock()
	signal(t.wake)
}

// busy reports whether deliveries ended since the last trim.
func (t *trimmer) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count > 0
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

// again has partitions trimmed with the next turn, whenever that is.
func (t *trimmer) again(failed []*PartitionError) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range failed {
		t.touched[f.Partition] = true
	}
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
		timer.Reset(trimEvery)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// trim forgets all that there is to forget in partitions, but in those that do
// not answer.
func (t *trimmer) trim(ctx context.Context, partitions []int) {
	e := t.engine
	for more := true; more && len(partitions) > 0 && ctx.Err() == nil; {
		call, cancel := within(ctx)
		trimmed, err := e.queue.Trim(call, e.name(), partitions, t.keep, false)
		cancel()
		t.tell(ctx, trimmed)
		e.endpoints.Compare(ctx, trimmed.Looked)
		e.answered(trimmed.Hints...)
		failed, rest := partitionErrors(err)
		if rest != nil {
			e.outages.repeat(ctx, "trim", 0, err)
			return // the guard comes again
		}
		e.goOn(ctx, "trim", 0, err)
		t.again(failed)
		partitions = slices.DeleteFunc(partitions, func(n int) bool {
			return slices.ContainsFunc(failed, func(f *PartitionError) bool { return f.Partition == n })
		})
		more = trimmed.More
	}
}

// tell says when work is forgotten sooner than it was asked to be kept: once for
// the dead, since that goes on as long as deaths do, and for the finished each
// time that the age has halved.
func (t *trimmer) tell(ctx context.Context, trimmed Trimmed) {
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
