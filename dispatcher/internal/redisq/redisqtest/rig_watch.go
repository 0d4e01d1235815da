package redisqtest

import (
	"context"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// hintWait is the timeout for a hint that must come. A hint takes well under a
// ms.
const hintWait = 20 * time.Second

// Watcher collects the hints of one instance.
type Watcher struct {
	r     *Rig
	hints chan Hint
	lanes chan []dispatcher.Lane
	Ended chan error
	Stop  context.CancelFunc
}

// Watch begins to listen for an instance. It returns when the subscription is
// active.
func (r *Rig) Watch(by string) *Watcher { return r.WatchOn(r.Queue, by) }

// WatchOn is Watch over another connection.
func (r *Rig) WatchOn(q *Raw, by string) *Watcher {
	r.Helper()
	ctx, stop := context.WithCancel(r.Ctx)
	w := &Watcher{r: r, hints: make(chan Hint, 1000), lanes: make(chan []dispatcher.Lane, 1000), Ended: make(chan error, 1), Stop: stop}
	listening := make(chan struct{})
	lost := sync.OnceFunc(func() { close(listening) })
	var running sync.WaitGroup
	running.Go(func() {
		w.Ended <- q.Watch(ctx, by, Subscriber{
			OnHint: func(h Hint) { w.hints <- h },
			Subscriber: dispatcher.Subscriber{
				OnEndpoint: func(c dispatcher.EndpointChange) { r.Errorf("endpoint %s was changed by nobody", c.ID) },
				OnGap:      lost,
				OnTakeable: func(lanes []dispatcher.Lane) { w.lanes <- lanes },
			},
		})
	})
	r.Cleanup(func() {
		stop()
		running.Wait()
	})
	select {
	case <-listening:
	case err := <-w.Ended:
		r.Fatalf("watch ended: %v", err)
	case <-time.After(hintWait):
		r.Fatal("a watch begins without lost")
	}
	return w
}

// NextTakeable waits for a hint with lanes to take from, and returns the lanes.
func (w *Watcher) NextTakeable() []dispatcher.Lane {
	w.r.Helper()
	select {
	case lanes := <-w.lanes:
		return lanes
	case err := <-w.Ended:
		w.r.Fatalf("watch ended: %v", err)
	case <-time.After(hintWait):
		w.r.Fatal("no hint came")
	}
	return nil
}

// Next waits for a hint and returns it.
func (w *Watcher) Next() Hint {
	w.r.Helper()
	select {
	case h := <-w.hints:
		return h
	case err := <-w.Ended:
		w.r.Fatalf("watch ended: %v", err)
	case <-time.After(hintWait):
		w.r.Fatal("no hint came")
	}
	return Hint{}
}
