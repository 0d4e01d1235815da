package dispatcher

import (
	"context"
	"log/slog"
	"sync"
)

// sweeper ends what waits for a time in lanes that were disabled or deleted.
// It only hurries: whatever it does not reach, since this process ends, is
// ended by whoever makes it ready.
type sweeper struct {
	engine *engine

	mu    sync.Mutex // guards lanes
	lanes []Lane

	wake chan struct{} // 1 deep
}

func newSweeper(e *engine) *sweeper { return &sweeper{engine: e, wake: make(chan struct{}, 1)} }

func (s *sweeper) put(lane Lane) {
	s.mu.Lock()
	s.lanes = append(s.lanes, lane)
	s.mu.Unlock()
	signal(s.wake)
}

func (s *sweeper) take() (lane Lane, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lanes) == 0 {
		return "", false
	}
	lane, s.lanes = s.lanes[0], s.lanes[1:]
	return lane, true
}

// Run sweeps until ctx ends.
func (s *sweeper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		lane, ok := s.take()
		if !ok {
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
			continue
		}
		s.sweep(ctx, lane)
	}
	return nil
}

func (s *sweeper) sweep(ctx context.Context, lane Lane) {
	e := s.engine
	cursor, total := "", 0
	for failures := 0; ctx.Err() == nil; {
		call, cancel := within(ctx)
		ended, next, hints, err := e.queue.Sweep(call, e.name(), lane, cursor)
		cancel()
		e.view.note(hints...)
		e.trimmer.ended(ended, hints)
		total += ended
		if failures = e.repeat(ctx, "sweep", failures, err); failures > 0 {
			continue
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if total > 0 {
		e.log.LogAttrs(ctx, slog.LevelInfo, "lane swept", slog.String("lane", string(lane)), slog.Int("deliveries", total))
	}
}
