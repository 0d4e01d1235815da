package deliveries

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// WakeCases are about hints of work to other instances.
var WakeCases = []rig.Case{
	{Name: "a watch begins with a gap, because it may have missed hints", Run: func(r *rig.Rig) {
		r.Watch(rig.Two)
	}},
	{Name: "a hint reports work for now and for later", Run: func(r *rig.Rig) {
		w := r.Watch(rig.Two)
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Minute)))
		require.Equal(r, redisqtest.Hint{Now: rig.Start, Due: rig.Start.Add(time.Minute), Weight: -1}, w.Next())
		r.Schedule(r.Entry("m2", rig.To("a"), rig.Delay(time.Second)))
		require.Equal(r, rig.Start.Add(time.Second), w.Next().Due)
		r.Publish("b", "m3")
		require.Equal(r, redisqtest.Hint{Now: rig.Start, Due: rig.Start.Add(time.Second), Weight: r.Setup.Weight(4, 0)}, w.Next())
	}},
	{Name: "a hint reports a lighter lane, even if there was work already", Run: func(r *rig.Rig) {
		r.Succeed("light")
		r.Publish("heavy", "m1")
		w := r.Watch(rig.Two)
		r.Publish("light", "m2")
		require.Equal(r, 0, w.Next().Weight)
	}},
	{Name: "an instance gets no hint about its own changes", Run: func(r *rig.Rig) {
		w := r.Watch(rig.One)
		r.Publish("a", "m1") // published by one
		_, _, err := r.Queue.Schedule(r.Ctx, rig.Two, 0, 0, []dispatcher.Entry{r.Entry("m2", rig.To("b"), rig.Delay(time.Minute))})
		require.NoError(r, err)
		h := w.Next()
		require.Equal(r, rig.Start.Add(time.Minute), h.Due, "the first hint comes from the other instance")
	}},
	{Name: "a hint arrives over another connection to the same store", Run: func(r *rig.Rig) {
		w := r.WatchOn(r.Open(), rig.Two)
		r.Publish("a", "m1")
		require.Equal(r, r.Setup.Weight(4, 0), w.Next().Weight)
	}},
	{Name: "a hint reports a retry, a hand-back and a takeover", Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		claimed := r.Claim(rig.One, 64)
		w := r.Watch(rig.Two)
		r.MustSettle(rig.One, rig.Failure(claimed[0], time.Minute))
		require.Equal(r, rig.Start.Add(time.Minute), w.Next().Due)
		r.MustClaim(rig.One, rig.Named("a", "m3"))
		r.MustSettle(rig.One, rig.HandBack(claimed[1]))
		require.GreaterOrEqual(r, w.Next().Weight, 0)
		r.Claim(rig.One, 64)
		_, _, err := r.Queue.Reap(r.Ctx, "three", rig.One)
		require.NoError(r, err)
		require.GreaterOrEqual(r, w.Next().Weight, 0)
	}},
	{Name: "a watch ends with its context", Run: func(r *rig.Rig) {
		w := r.Watch(rig.Two)
		w.Stop()
		require.NoError(r, <-w.Ended)
	}},
	{Name: "every hint reports its partition", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		w := r.Watch(rig.Two)
		for _, lane := range []dispatcher.Lane{"a", "b", "c", "d", "e", "f"} {
			r.Publish(lane, "m-"+string(lane))
		}
		want := map[int]bool{}
		for _, lane := range []dispatcher.Lane{"a", "b", "c", "d", "e", "f"} {
			want[r.Partition(lane)] = true
		}
		require.Greater(r, len(want), 1)
		for len(want) > 0 {
			delete(want, w.Next().Partition)
		}
	}},
}
