package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Stores that can tell nothing.

func polling(_ *engine.Options, q *testQueue, _ *fakeSender) { q.polls, q.partitions = true, 3 }

func TestWhoCanNotBeToldLooksEverySecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, polling)
		r.start(t)
		pass(10*time.Minute + engine.PollLeast/2)
		require.Zero(t, r.queue.count("watch"))
		require.Equal(t, 601, r.queue.count("peek"))
		for _, c := range r.queue.seen("peek") {
			require.Equal(t, 3, c.n)
		}
		r.queue.fillLane("u_3", 3) // by another instance
		r.queue.later("u_1", "soon", 5*time.Second)
		pass(engine.PollLeast)
		require.Len(t, r.sender.sent(), 3)
		pass(4*time.Second - moment)
		require.Len(t, r.sender.sent(), 3)
		pass(2 * moment)
		require.Len(t, r.sender.sent(), 4, "to the moment")
		require.Equal(t, 10, r.queue.count("trim"), "the guard's turns are as they were")
		r.stop(t)
	})
}

func TestWhoPollsAStoreThatWentAwayComparesLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, polling)
		r.start(t)
		pass(5 * time.Minute)
		r.queue.set(func() { r.queue.hook = func(string) error { return d.ErrUnavailable } })
		pass(time.Minute)
		plant(r.queue, "again") // a failover brought it back
		r.queue.set(func() { r.queue.hook = nil })
		pass(outage.PauseMost + engine.PollLeast + engine.ReconcileAfter + wait.BeatEvery)
		require.Equal(t, map[d.Verdict]int{d.Back: 1, d.Delivered: 1}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestWhoCanNotBeToldReadsEndpointsEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, polling)
		r.start(t)
		view := r.create(t, uid("main"))
		require.Len(t, r.publish(t, fan("acme", "before")).Deliveries, 1)
		other := newTestInstance(t, connect(t, r.queue, 1024), r.sender, func() engine.Options {
			o := newTestOptions(t, r.log)
			o.Instance, o.Endpoints = "other", r.store
			return o
		}())
		_, err := other.ChangeEndpoint(t.Context(), "main", func(e *d.Endpoint) error {
			e.URL = "https://moved.example/"
			return nil
		})
		require.NoError(t, err)
		r.publish(t, fan("acme", "moved"))
		pass(engine.PollLeast)
		require.Equal(t, "https://moved.example/", r.sender.sent()[1].URL.String())
		_, err = other.DeleteEndpoint(t.Context(), view.ID)
		require.NoError(t, err)
		require.Empty(t, r.publish(t, fan("acme", "deleted")).Deliveries)
		r.stop(t)
	})
}
