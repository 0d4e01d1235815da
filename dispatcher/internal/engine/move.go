package engine

import (
	"context"

	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// mover makes ready what is due. It sleeps until the queue's next due time.
type mover struct{ engine *Engine }

// Run moves until ctx ends.
func (m *mover) Run(ctx context.Context) error {
	e := m.engine
	timer := newIdleTimer()
	defer timer.Stop()
	for failures := 0; ctx.Err() == nil; {
		call, cancel := outage.Within(ctx)
		wait, err := e.queue.Move(call, e.name())
		cancel()
		if wait == 0 {
			failures = e.goOn(ctx, "move", failures, err)
			continue
		}
		if wait > 0 {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
		case <-e.due:
		case <-timer.C:
		}
	}
	return nil
}
