package queuetest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// hintWait is the longest wait for a hint that must come. It takes well under a
// ms.
const hintWait = 20 * time.Second

var wakeCases = []testCase{
	{name: "a watch begins with a gap, since hints may have been missed", run: func(r *rig) {
		r.watch(two)
	}},
	{name: "others are told of work at once and for later", run: func(r *rig) {
		w := r.watch(two)
		r.schedule(r.entry("m1", to("a"), delay(time.Minute)))
		require.Equal(r, Hint{Now: start, Due: start.Add(time.Minute), Weight: -1}, w.next())
		r.schedule(r.entry("m2", to("a"), delay(time.Second)))
		require.Equal(r, start.Add(time.Second), w.next().Due)
		r.publish("b", "m3")
		require.Equal(r, Hint{Now: start, Due: start.Add(time.Second), Weight: r.setup.weight(4, 0)}, w.next())
	}},
	{name: "a lighter lane is told though there was work already", run: func(r *rig) {
		r.succeed("light")
		r.publish("heavy", "m1")
		w := r.watch(two)
		r.publish("light", "m2")
		require.Equal(r, 0, w.next().Weight)
	}},
	{name: "an instance is not told of its own changes", run: func(r *rig) {
		w := r.watch(one)
		r.publish("a", "m1") // published by one
		_, _, err := r.Queue.Schedule(r.ctx, two, 0, 0, []dispatcher.Entry{r.entry("m2", to("b"), delay(time.Minute))})
		require.NoError(r, err)
		h := w.next()
		require.Equal(r, start.Add(time.Minute), h.Due, "the first hint is the other's")
	}},
	{name: "a hint arrives over another connection to the same store", run: func(r *rig) {
		w := r.watchOn(r.Open(), two)
		r.publish("a", "m1")
		require.Equal(r, r.setup.weight(4, 0), w.next().Weight)
	}},
	{name: "a hint tells of a rung, of a delivery that is handed back, and of a takeover", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		claimed := r.claim(one, 64)
		w := r.watch(two)
		r.mustSettle(one, failure(claimed[0], time.Minute))
		require.Equal(r, start.Add(time.Minute), w.next().Due)
		r.mustClaim(one, named("a", "m3"))
		r.mustSettle(one, handBack(claimed[1]))
		require.GreaterOrEqual(r, w.next().Weight, 0)
		r.claim(one, 64)
		_, _, err := r.Queue.Reap(r.ctx, "three", one)
		require.NoError(r, err)
		require.GreaterOrEqual(r, w.next().Weight, 0)
	}},
	{name: "a watch ends with its context", run: func(r *rig) {
		w := r.watch(two)
		w.stop()
		require.NoError(r, <-w.ended)
	}},
	{name: "every hint tells the partition it is about", setup: Setup{Partitions: 4}, run: func(r *rig) {
		w := r.watch(two)
		for _, lane := range []dispatcher.Lane{"a", "b", "c", "d", "e", "f"} {
			r.publish(lane, "m-"+string(lane))
		}
		want := map[int]bool{}
		for _, lane := range []dispatcher.Lane{"a", "b", "c", "d", "e", "f"} {
			want[r.Partition(lane)] = true
		}
		require.Greater(r, len(want), 1)
		for len(want) > 0 {
			delete(want, w.next().Partition)
		}
	}},
}

// watcher collects the hints of one instance.
type watcher struct {
	r     *rig
	hints chan Hint
	ended chan error
	stop  context.CancelFunc
}

// watch begins to listen for an instance. It returns when the subscription is
// active.
func (r *rig) watch(by string) *watcher { return r.watchOn(r.Queue, by) }

func (r *rig) watchOn(q Queue, by string) *watcher {
	r.Helper()
	ctx, stop := context.WithCancel(r.ctx)
	w := &watcher{r: r, hints: make(chan Hint, 1000), ended: make(chan error, 1), stop: stop}
	listening := make(chan struct{})
	lost := sync.OnceFunc(func() { close(listening) })
	var running sync.WaitGroup
	running.Go(func() {
		w.ended <- q.Watch(ctx, by, Subscriber{
			OnHint: func(h Hint) { w.hints <- h },
			Subscriber: dispatcher.Subscriber{
				OnEndpoint: func(c dispatcher.EndpointChange) { r.Errorf("endpoint %s was changed by nobody", c.ID) },
				OnGap:      lost,
			},
		})
	})
	r.Cleanup(func() {
		stop()
		running.Wait()
	})
	select {
	case <-listening:
	case err := <-w.ended:
		r.Fatalf("watch ended: %v", err)
	case <-time.After(hintWait):
		r.Fatal("a watch begins without lost")
	}
	return w
}

// next waits for a hint.
func (w *watcher) next() Hint {
	w.r.Helper()
	select {
	case h := <-w.hints:
		return h
	case err := <-w.ended:
		w.r.Fatalf("watch ended: %v", err)
	case <-time.After(hintWait):
		w.r.Fatal("no hint came")
	}
	return Hint{}
}
