package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

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
