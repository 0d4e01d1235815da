package dispatcher

import (
	"context"
	"errors"
	"time"
)

// The guard's reads stay below lookRate commands a second, however many
// partitions there are: a partition costs three, and the time one more.
const lookRate = 0.6

var errWatchEnded = errors.New("the subscription ended")

// watcher feeds the view with what others did, and looks for itself now and
// then, since a hint can get lost.
type watcher struct {
	engine *engine
	guard  time.Duration
}

// Run listens to other instances' hints until ctx ends.
func (w *watcher) Run(ctx context.Context) error {
	e := w.engine
	lost := func() {
		e.directory.listen(true)
		e.lookAround()
		e.unsure() // another node may have taken over, and know less
	}
	ears := Ears{Hint: func(h Hint) { e.view.note(h) }, Endpoint: e.directory.heard, Lost: lost}
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := e.queue.Watch(ctx, e.name(), ears)
		e.directory.listen(false)
		if err == nil {
			err = errWatchEnded
		}
		if time.Since(began) > pauseMost {
			failures = 0 // it had worked
		}
		failures = e.repeat(ctx, "watch", failures, err)
	}
	return nil
}

// Look reads all partitions when something may have been missed, and at each
// turn of the guard, until ctx ends.
func (w *watcher) Look(ctx context.Context) error {
	e := w.engine
	all := make([]int, e.queue.Partitions())
	for n := range all {
		all[n] = n
	}
	every := max(w.guard, time.Duration(float64(3*len(all)+1)/lookRate*float64(time.Second)))
	timer := time.NewTimer(every)
	defer timer.Stop()
	for failures, turn := 0, 0; ctx.Err() == nil; {
		call, cancel := within(ctx)
		hints, err := e.queue.Peek(call, all)
		cancel()
		e.view.note(hints...)
		if failures = e.repeat(ctx, "look", failures, err); failures > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-e.look:
		case <-timer.C:
			timer.Reset(every)
			e.trimmer.look(all[turn%len(all)])
			turn++
		}
	}
	return nil
}
