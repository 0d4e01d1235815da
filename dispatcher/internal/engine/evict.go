package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Making room takes evictWithin at most, since publishes wait for it.
// That finished work goes is told once in each evictTold: it goes on as long as
// memory is short.
const (
	evictWithin = time.Second
	evictTold   = time.Hour
)

// evictor makes space for new messages by forgetting finished ones: what is new
// matters more than what is over.
type evictor struct {
	engine *Engine

	mu   sync.Mutex // guards told, while room is made
	told time.Time
}

func newEvictor(e *Engine) *evictor {
	return &evictor{engine: e}
}

// makeRoom has the oldest finished work forgotten, before its age, until as much
// went as is wanted, or nothing more goes. It reports whether it is worth trying
// once more.
func (r *evictor) makeRoom(ctx context.Context, wanted int) bool {
	e := r.engine
	r.mu.Lock()
	defer r.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, evictWithin)
	defer cancel()
	for made := false; ; made = true {
		trimmed, err := e.queue.Trim(call, e.name(), e.trimmer.keep, dispatcher.TrimFull)
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
		r.tell(ctx)
		if wanted -= went; wanted <= 0 {
			return true
		}
	}
}

func (r *evictor) tell(ctx context.Context) {
	if !r.told.IsZero() && time.Since(r.told) < evictTold {
		return
	}
	r.told = time.Now()
	r.engine.log.LogAttrs(ctx, slog.LevelWarn, "memory full, finished deliveries forgotten to make room for new ones",
		slog.String("cure", "give the store more memory, or lower RETENTION"))
}
