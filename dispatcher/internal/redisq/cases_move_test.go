package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// MoveCases are about making due deliveries ready.
var MoveCases = []redisqtest.Case{
	{Name: "a delivery is ready at its due time and not a microsecond before", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Second)))
		r.SetNow(redisqtest.Start.Add(time.Second - time.Microsecond))
		h := r.Move()
		require.Equal(r, redisqtest.Start.Add(time.Second), h.Due)
		require.Equal(r, -1, h.Weight)
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusScheduled)
		r.MustClaimNothing(redisqtest.One)

		r.SetNow(redisqtest.Start.Add(time.Second))
		h = r.Move()
		require.Zero(r, h.Due)
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 0), h.Weight, "a lane never seen weighs as four in flight")
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
		claimed := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		require.Equal(r, redisqtest.Start.Add(time.Second), claimed[0].Due)
	}},
	{Name: "a fraction of a ms at publishing makes the due time later", Run: func(r *redisqtest.Rig) {
		r.Pass(700 * time.Microsecond)
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(5*time.Millisecond)))
		r.SetNow(redisqtest.Start.Add(6*time.Millisecond - time.Microsecond))
		r.Move()
		r.MustClaimNothing(redisqtest.One)
		r.SetNow(redisqtest.Start.Add(6 * time.Millisecond))
		r.Move()
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
	}},
	{Name: "the delivery with the earlier due time comes first", Run: func(r *redisqtest.Rig) {
		r.Schedule(
			r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(3*time.Second)),
			r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(1*time.Second)),
			r.Entry("m3", redisqtest.To("a"), redisqtest.Delay(2*time.Second)),
		)
		r.Pass(time.Minute)
		r.Move()
		require.Equal(r, redisqtest.IDs("a", "m2", "m3", "m1"), r.State().Ready["a"])
	}},
	{Name: "a delivery that becomes ready waits behind the ready ones", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Second)))
		r.Publish("a", "m2")
		r.Pass(time.Minute)
		r.Move()
		require.Equal(r, redisqtest.IDs("a", "m2", "m1"), r.State().Ready["a"])
	}},
	{Name: "a lane that gets more work keeps its turn", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(3*time.Second)), r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(4*time.Second)))
		r.Pass(3 * time.Second)
		r.Move()
		turn := r.State().Lanes["a"].Turn
		r.Pass(time.Second)
		r.Move()
		r.Publish("a", "m3")
		require.Equal(r, turn, r.State().Lanes["a"].Turn)
		r.Publish("b", "m4")
		require.Equal(r, redisqtest.IDs("a", "m1"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 1)))
	}},
	{Name: "one call moves a batch, and its hint reports the rest", Run: func(r *redisqtest.Rig) {
		const n = 1000
		batch := make([]dispatcher.Entry, n)
		for i := range batch {
			batch[i] = r.Entry(fmt.Sprintf("m%04d", i), redisqtest.To("a"), redisqtest.Delay(time.Second))
		}
		r.Schedule(batch...)
		r.Pass(time.Second)
		for calls := 1; ; calls++ {
			h := r.Move()
			if h.Due.IsZero() {
				break
			}
			require.Equal(r, redisqtest.Start.Add(time.Second), h.Due)
			require.LessOrEqual(r, calls, n, "it goes on moving")
		}
		require.Len(r, r.State().Ready["a"], n)
	}},
	{Name: "a move with nothing due changes nothing", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Second)))
		r.MustChangeNothing(func() { r.Move() })
	}},
	{Name: "the mover rests after the last due delivery, also while the clock stands", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Second)), r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.SetNow(redisqtest.Start.Add(time.Second))
		store := r.Queue.Queue()
		_, err := store.Poll(r.Ctx, true)
		require.NoError(r, err)
		wait, _, err := store.Move(r.Ctx, redisqtest.One)
		require.NoError(r, err)
		require.Zero(r, wait, "it moved, so there may be more")
		wait, _, err = store.Move(r.Ctx, redisqtest.One)
		require.NoError(r, err)
		require.Greater(r, wait, 50*time.Minute)
		require.Equal(r, redisqtest.IDs("a", "m1"), r.State().Ready["a"])
	}},
	{Name: "a move of no partition does nothing", Run: func(r *redisqtest.Rig) {
		_, hints, err := r.Queue.Move(r.Ctx, redisqtest.One, nil)
		require.NoError(r, err)
		require.Empty(r, hints)
	}},
	{Name: "a retry is ready at its rung's time", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 15*time.Second))
		r.SetNow(redisqtest.Start.Add(15*time.Second - time.Microsecond))
		require.Equal(r, redisqtest.Start.Add(15*time.Second), r.Move().Due)
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusRetrying)
		r.SetNow(redisqtest.Start.Add(15 * time.Second))
		r.Move()
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
	}},
}

// WakeCases are about hints of work to other instances.
var WakeCases = []redisqtest.Case{
	{Name: "a watch begins with a gap, because it may have missed hints", Run: func(r *redisqtest.Rig) {
		r.Watch(redisqtest.Two)
	}},
	{Name: "a hint reports work for now and for later", Run: func(r *redisqtest.Rig) {
		w := r.Watch(redisqtest.Two)
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Minute)))
		require.Equal(r, redisqtest.Hint{Now: redisqtest.Start, Due: redisqtest.Start.Add(time.Minute), Weight: -1}, w.Next())
		r.Schedule(r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Second)))
		require.Equal(r, redisqtest.Start.Add(time.Second), w.Next().Due)
		r.Publish("b", "m3")
		require.Equal(r, redisqtest.Hint{Now: redisqtest.Start, Due: redisqtest.Start.Add(time.Second), Weight: r.Setup.Weight(redisqtest.NewLane, 0)}, w.Next())
	}},
	{Name: "a hint reports a lighter lane, even if there was work already", Run: func(r *redisqtest.Rig) {
		r.Succeed("light")
		r.Publish("heavy", "m1")
		w := r.Watch(redisqtest.Two)
		r.Publish("light", "m2")
		require.Equal(r, 0, w.Next().Weight)
	}},
	{Name: "an instance gets no hint about its own changes", Run: func(r *redisqtest.Rig) {
		w := r.Watch(redisqtest.One)
		r.Publish("a", "m1") // published by one
		_, _, err := r.Queue.Schedule(r.Ctx, redisqtest.Two, 0, 0, []dispatcher.Entry{r.Entry("m2", redisqtest.To("b"), redisqtest.Delay(time.Minute))})
		require.NoError(r, err)
		h := w.Next()
		require.Equal(r, redisqtest.Start.Add(time.Minute), h.Due, "the first hint comes from the other instance")
	}},
	{Name: "a hint arrives over another connection to the same store", Run: func(r *redisqtest.Rig) {
		w := r.WatchOn(r.Open(), redisqtest.Two)
		r.Publish("a", "m1")
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 0), w.Next().Weight)
	}},
	{Name: "a hint reports a retry, a hand-back and a takeover", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		claimed := r.Claim(redisqtest.One, 64)
		w := r.Watch(redisqtest.Two)
		r.MustSettle(redisqtest.One, redisqtest.Failure(claimed[0], time.Minute))
		require.Equal(r, redisqtest.Start.Add(time.Minute), w.Next().Due)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m3"))
		r.MustSettle(redisqtest.One, redisqtest.HandBack(claimed[1]))
		require.GreaterOrEqual(r, w.Next().Weight, 0)
		r.Claim(redisqtest.One, 64)
		_, _, err := r.Queue.Reap(r.Ctx, "three", redisqtest.One)
		require.NoError(r, err)
		require.GreaterOrEqual(r, w.Next().Weight, 0)
	}},
	{Name: "a watch ends with its context", Run: func(r *redisqtest.Rig) {
		w := r.Watch(redisqtest.Two)
		w.Stop()
		require.NoError(r, <-w.Ended)
	}},
	{Name: "every hint reports its partition", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		w := r.Watch(redisqtest.Two)
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
