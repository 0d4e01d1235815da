package app

import (
	"context"
	"errors"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Tick runs a process without an API. It does due work for at most within, and ends like Run.
// Attempts under way then get their grace. If ctx ends, the result counts the work until then.
// o has no address to listen on.
func Tick(ctx context.Context, o Options, within time.Duration) (tick dispatcher.Tick, err error) {
	var work *process
	var failed error
	o.once = func(ctx context.Context, p *process) {
		work = p
		if tick, failed = p.ticker.Tick(ctx, within); errors.Is(failed, context.Canceled) || errors.Is(failed, dispatcher.ErrStopping) {
			tick.Next, failed = p.engine.Now().Truncate(time.Millisecond), nil
		}
	}
	if err := errors.Join(Run(ctx, o), failed); err != nil || work == nil {
		return dispatcher.Tick{}, err
	}
	d := work.engine.Doing() // including the attempts that ended in the grace time
	tick.Attempted, tick.Delivered, tick.Dead = d.Attempted, d.Delivered, d.Dead
	return tick, nil
}
