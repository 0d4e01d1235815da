package dispatcher

import (
	"context"
	"errors"
	"time"
)

// The guard's reads stay below lookRate commands a second, however many
// partitions there are and however often it is asked to come: a partition costs
// three, and the time one more. The finisher's count too, which it calls for.
const lookRate = 0.6

// trimLeast lies between two trims that the guard calls for while no delivery
// ends: one is some 18 commands.
const trimLeast = 50 * time.Second

var errWatchEnded = errors.New("the subscription ended")

// watcher feeds the view with what others did, and looks for itself now and
// then, since a hint can get lost.
type watcher struct {
	engine *engine
	guard  time.Duration
}

// lookLeast lies between two looks at all partitions, which many failures at
// once ask for. Without pub/sub it is how often an instance looks.
const lookLeast = time.Second

// Run listens to other instances' hints until ctx ends, where they can be heard.
func (w *watcher) Run(ctx context.Context) error {
	e := w.engine
	if e.queue.Polls() {
		return nil
	}
	lost := func() {
		e.endpoints.Cache.SetSubscribed(true)
		e.pollSoon()
		e.unsure() // another node may have taken over, and know less
		e.dead.suspect()
		e.endpoints.Suspect()
	}
	ears := Subscriber{OnHint: func(h Hint) { e.view.hear(h) }, OnEndpoint: e.endpoints.Cache.OnChange, OnGap: lost}
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := e.queue.Watch(ctx, e.name(), ears)
		e.endpoints.Cache.SetSubscribed(false)
		if err == nil {
			err = errWatchEnded
		}
		if time.Since(began) > pauseMost {
			failures = 0 // it had worked
		}
		failures = e.outages.repeat(ctx, "watch", failures, err)
	}
	return nil
}

// Poll reads all partitions when something may have been missed, at each turn
// of the guard, and all the time where nothing can be heard, until ctx ends; and
// those of which an answer was lost as soon as they answer.
func (w *watcher) Poll(ctx context.Context) error {
	e := w.engine
	all := make([]int, e.queue.Partitions())
	for n := range all {
		all[n] = n
	}
	turn := 0
	guard := time.NewTimer(w.pause())
	defer guard.Stop()
	timer := newIdleTimer()
	defer timer.Stop()
	asked := true // to look at all
	var last, trimmed time.Time
	for failures, failed := 0, false; ctx.Err() == nil; {
		partitions, wait := e.view.unseen()
		if due := time.Until(last.Add(lookLeast)); asked || e.queue.Polls() {
			if due <= 0 {
				partitions, last = all, time.Now()
			}
			wait = sooner(wait, max(due, 0))
		}
		if len(partitions) > 0 {
			err := w.readHints(ctx, partitions)
			if failed && err == nil {
				e.unsure() // the node that was out of reach may know less now
				e.dead.suspect()
				e.endpoints.Suspect()
			}
			failed = err != nil
			failures = e.goOn(ctx, "look", failures, err)
			asked = failures > 0 || asked && len(partitions) < len(all)
			continue
		}
		if wait >= 0 {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.view.miss:
		case <-e.look:
			asked = true
		case <-guard.C:
			asked = true
			e.endpoints.Suspect()
			if now := time.Now(); e.trimmer.busy() || now.Sub(trimmed) >= trimLeast {
				e.trimmer.touch(all[turn%len(all)])
				turn, trimmed = turn+1, now
			}
			guard.Reset(w.pause())
		}
	}
	return nil
}

// pause is how long the guard rests: as it was told, or longer where what one
// turn costs asks for that.
func (w *watcher) pause() time.Duration {
	partitions := w.engine.queue.Partitions()
	cost := 3*partitions + 1 + w.engine.endpoints.FinishCost()
	return max(w.guard, time.Duration(float64(cost)/lookRate*float64(time.Second)))
}

func (w *watcher) readHints(ctx context.Context, partitions []int) error {
	call, cancel := within(ctx)
	defer cancel()
	hints, err := w.engine.queue.ReadHints(call, partitions)
	w.engine.view.hear(hints...)
	return err
}
