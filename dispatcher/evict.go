package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Making room takes roomWithin at most, since publishes wait for it; where there
// was nothing to forget that is not tried again before roomAgain.
// That finished work goes is told once in each roomTold: it goes on as long as
// memory is short.
const (
	evictWithin = time.Second
	evictAgain  = time.Second
	evictTold   = time.Hour
)

// evictor makes space for new messages by forgetting finished ones: what is new
// matters more than what is over.
type evictor struct {
	engine *engine

	mu         sync.Mutex // guards what follows, while room is made
	emptyUntil []time.Time
	told       time.Time
}

func newEvictor(e *engine) *evictor {
	return &evictor{engine: e, emptyUntil: make([]time.Time, e.queue.Partitions())}
}

// makeRoom has the oldest finished work forgotten, before its age, until as much went
// as there are errors that say that there is no memory, or nothing more goes. It
// reports whether it is worth trying once more.
func (r *evictor) makeRoom(ctx context.Context, full []error) bool {
	e := r.engine
	r.mu.Lock()
	defer r.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, evictWithin)
	defer cancel()
	partitions := r.partitions(call, full)
	for wanted := len(full); wanted > 0 && len(partitions) > 0; {
		trimmed, err := e.queue.Trim(call, e.name(), partitions, e.trimmer.keep, true)
		e.outages.report("trim", err)
		e.answered(trimmed.Hints...)
		went := trimmed.Finished + trimmed.Seen
		switch {
		case went == 0 && err != nil:
			return false
		case went == 0:
			for _, n := range partitions {
				r.emptyUntil[n] = time.Now()
			}
			return true // another instance may have made room
		}
		r.tell(ctx)
		wanted -= went
	}
	return len(partitions) > 0
}

func (r *evictor) tell(ctx context.Context) {
	if !r.told.IsZero() && time.Since(r.told) < evictTold {
		return
	}
	r.told = time.Now()
	r.engine.log.LogAttrs(ctx, slog.LevelWarn, "memory full, finished deliveries forgotten to make room for new ones",
		slog.String("cure", "give the store more memory, or lower RETENTION"))
}

// partitions are those where room may help: all that share a node with one that
// has none, as far as that is known, but those that had nothing to forget a
// moment ago.
func (r *evictor) partitions(ctx context.Context, full []error) (list []int) {
	r.engine.many.ask(ctx, r.engine.queue)
	concerned := map[int]bool{}
	for _, err := range full {
		failed, rest := partitionErrors(err)
		for _, f := range failed {
			concerned[f.Partition] = true
		}
		if rest != nil || !r.engine.many.known() {
			clear(concerned)
			break
		}
	}
	for n, none := range r.emptyUntil {
		if (len(concerned) == 0 || concerned[n]) && (none.IsZero() || time.Since(none) >= evictAgain) {
			list = append(list, n)
		}
	}
	return list
}
