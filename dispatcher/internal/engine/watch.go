package engine

import (
	"context"
	"errors"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// The guard's reads stay below lookRate commands a second, however many parts the
// queue has and however often it is asked to come. The finisher's count too, which
// it calls for.
const pollRate = 0.6

// trimLeast lies between two trims that the guard calls for while no delivery
// ends: one is some 18 commands.
const trimLeast = 50 * time.Second

var errWatchEnded = errors.New("the subscription ended")

// watcher has the queue hear what others did, and looks for itself now and
// then, since a hint can get lost.
type watcher struct {
	engine    *Engine
	pollEvery time.Duration
}

// pollLeast lies between two looks at all that there is to do, which many failures at
// once ask for. Without pub/sub it is how often an instance looks.
const pollLeast = time.Second

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
	ears := dispatcher.Subscriber{OnEndpoint: e.endpoints.Cache.OnChange, OnGap: lost}
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := e.queue.Watch(ctx, e.name(), ears)
		e.endpoints.Cache.SetSubscribed(false)
		if err == nil {
			err = errWatchEnded
		}
		if time.Since(began) > outage.PauseMost {
			failures = 0 // it had worked
		}
		failures = e.outages.Repeat(ctx, "watch", failures, err)
	}
	return nil
}

// Poll looks at all that there is to do until ctx ends: when an event may have been
// missed, at each turn of the guard, and every lookLeast without pub/sub. Where an
// answer was lost it looks as soon as that part answers again.
func (w *watcher) Poll(ctx context.Context) error {
	e := w.engine
	guard := time.NewTimer(w.pause())
	defer guard.Stop()
	timer := newIdleTimer()
	defer timer.Stop()
	asked := true // to look at all
	var last, trimmed time.Time
	for failures, failed := 0, false; ctx.Err() == nil; {
		due := time.Until(last.Add(pollLeast))
		wants := asked || e.queue.Polls()
		all := wants && due <= 0
		if all {
			last = time.Now()
		}
		wait, err := w.pollOnce(ctx, all)
		if wait == 0 {
			if failed && err == nil {
				e.unsure() // the node that was out of reach may know less now
				e.dead.suspect()
				e.endpoints.Suspect()
			}
			failed = err != nil
			failures = e.goOn(ctx, "look", failures, err)
			asked = failures > 0 || asked && !all
			continue
		}
		if wants {
			wait = sooner(wait, max(due, 0))
		}
		if wait >= 0 {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.unseen:
		case <-e.poll:
			asked = true
		case <-guard.C:
			asked = true
			e.endpoints.Suspect()
			if now := time.Now(); e.trimmer.busy() || now.Sub(trimmed) >= trimLeast {
				e.trimmer.age()
				trimmed = now
			}
			guard.Reset(w.pause())
		}
	}
	return nil
}

// pause is how long the guard rests: as it was told, or longer where what one
// turn costs asks for that.
func (w *watcher) pause() time.Duration {
	cost, held := w.engine.queue.Cost()
	cost += w.engine.endpoints.FinishCost(held)
	return max(w.pollEvery, time.Duration(float64(cost)/pollRate*float64(time.Second)))
}

func (w *watcher) pollOnce(ctx context.Context, all bool) (wait time.Duration, err error) {
	call, cancel := outage.Within(ctx)
	defer cancel()
	return w.engine.queue.Look(call, all)
}
