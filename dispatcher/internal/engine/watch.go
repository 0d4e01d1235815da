package engine

import (
	"context"
	"errors"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// pollRate bounds the commands a second of all polls, however many parts the queue has
// and however short PollEvery is. The reads of the finisher count too, since a poll
// wakes it.
const pollRate = 0.6

var errWatchEnded = errors.New("the subscription ended")

// watcher subscribes to the messages of other instances, and polls the queue now and then,
// because messages can get lost.
type watcher struct {
	engine    *Engine
	pollEvery time.Duration
}

// pollLeast is the least time between two polls of the whole queue, which many failures
// at once ask for. Without pub/sub it is the time between polls.
const pollLeast = time.Second

// Run is subscribed to the messages of other instances until ctx ends. It returns at once
// where the queue has no pub/sub.
func (w *watcher) Run(ctx context.Context) error {
	e := w.engine
	if e.store.Polls() {
		return nil
	}
	takeable := e.options.Takeable
	if takeable == nil {
		takeable = func([]dispatcher.Lane) {}
	}
	onEndpoint := func(change dispatcher.EndpointChange) {
		e.endpoints.Cache.OnChange(change)
		if change.Version == 0 && e.options.Gone != nil {
			e.options.Gone(dispatcher.Lane(change.ID))
		}
	}
	onGap := func() {
		takeable([]dispatcher.Lane{dispatcher.AllLanes})
		e.endpoints.Cache.SetSubscribed(true)
		e.pollSoon()
		e.unsure() // a replica may have taken over, and lack the last changes
		e.dead.suspect()
		e.endpoints.Suspect()
	}
	subscriber := dispatcher.Subscriber{OnEndpoint: onEndpoint, OnGap: onGap, OnTakeable: takeable}
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := e.store.Watch(ctx, e.name(), subscriber)
		e.endpoints.Cache.SetSubscribed(false)
		if err == nil {
			err = errWatchEnded
		}
		if time.Since(began) > outage.PauseMost {
			failures = 0 // the subscription had worked
		}
		failures = e.outages.Repeat(ctx, "watch", failures, err)
	}
	return nil
}

// Poll polls the whole queue until ctx ends: every PollEvery, when an event may have been
// missed, and every pollLeast without pub/sub. Where an answer was lost it polls that
// part of the queue as soon as it answers again.
func (w *watcher) Poll(ctx context.Context) error {
	e := w.engine
	tick := time.NewTimer(w.pause())
	defer tick.Stop()
	timer := newIdleTimer()
	defer timer.Stop()
	asked := true // to poll the whole queue
	var last time.Time
	for failures, failed := 0, false; ctx.Err() == nil; {
		due := time.Until(last.Add(pollLeast))
		wants := asked || e.store.Polls()
		all := wants && due <= 0
		if all {
			last = time.Now()
		}
		wait, err := w.pollOnce(ctx, all)
		if wait == 0 {
			if failed && err == nil {
				e.unsure() // the node that was out of reach may have lost its last changes
				e.dead.suspect()
				e.endpoints.Suspect()
			}
			failed = err != nil
			failures = e.outages.Continue(ctx, "look", failures, err)
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
		case <-tick.C:
			asked = true
			e.endpoints.Suspect()
			e.trimmer.age()
			tick.Reset(w.pause())
		}
	}
	return nil
}

// pause is the time until the next poll: PollEvery, or longer if the commands of a
// poll would exceed pollRate.
func (w *watcher) pause() time.Duration {
	cost, held := w.engine.store.Cost()
	cost += w.engine.endpoints.FinishCost(held)
	return max(w.pollEvery, time.Duration(float64(cost)/pollRate*float64(time.Second)))
}

func (w *watcher) pollOnce(ctx context.Context, all bool) (wait time.Duration, err error) {
	call, cancel := outage.Within(ctx)
	defer cancel()
	return w.engine.store.Look(call, all)
}

// mover makes due deliveries ready. It sleeps until the queue's next due time.
type mover struct{ engine *Engine }

// Run moves until ctx ends.
func (m *mover) Run(ctx context.Context) error {
	e := m.engine
	timer := newIdleTimer()
	defer timer.Stop()
	for failures := 0; ctx.Err() == nil; {
		wait, err := m.move(ctx)
		if wait == 0 {
			failures = e.outages.Continue(ctx, "move", failures, err)
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

// move moves once. It takes over leases that have ended by themselves, and records
// that their attempts failed.
func (m *mover) move(ctx context.Context) (wait time.Duration, err error) {
	e, by := m.engine, m.engine.name()
	call := e.beginLease(ctx, by)
	wait, ended, err := e.deliveries.Move(call.Ctx, by)
	e.endLease(call, ended, err)
	if errors.Is(err, dispatcher.ErrFenced) {
		e.rename(by)
		err = nil
	}
	for _, c := range ended {
		e.Finish(c, dispatcher.Handled{Verdict: dispatcher.Retry, Class: dispatcher.ClassLease, At: c.Due}, func(dispatcher.Settled) {})
	}
	return wait, err
}
