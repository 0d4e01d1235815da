package dispatcher

import "context"

// mover makes ready what is due. It sleeps until the next due time that the
// view knows of.
type mover struct{ engine *engine }

// Run moves until ctx ends.
func (m *mover) Run(ctx context.Context) error {
	e := m.engine
	timer := newIdleTimer()
	defer timer.Stop()
	for failures := 0; ctx.Err() == nil; {
		partitions, wait := e.view.dues()
		if len(partitions) > 0 {
			call, cancel := within(ctx)
			hints, err := e.queue.Move(call, e.name(), partitions)
			cancel()
			e.answered(hints...)
			failures = e.goOn(ctx, "move", failures, err)
			continue
		}
		if wait >= 0 {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
		case <-e.view.due:
		case <-timer.C:
		}
	}
	return nil
}
