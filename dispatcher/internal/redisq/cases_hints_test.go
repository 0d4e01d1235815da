package redisq_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// HintCases are about the hints that calls return for lanes: for lanes that wait
// for a time, and for lanes that are resumed.
var HintCases = []redisqtest.Case{
	{Name: "a lane that waits for a time is due at that time", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.Schedule(r.Entry("m4", redisqtest.To("b"), redisqtest.Delay(time.Minute)))
		c := r.Claim(redisqtest.One, 1)
		w := r.Watch(redisqtest.Two)
		_, hints, err := r.Queue.Settle(r.Ctx, redisqtest.One, []dispatcher.Settlement{redisqtest.Paused(c[0], time.Hour, 10*time.Second)})
		require.NoError(r, err)
		require.Equal(r, redisqtest.Start.Add(10*time.Second), hints[0].Due)
		require.Equal(r, -1, hints[0].Weight)
		require.Equal(r, redisqtest.Hint{Now: redisqtest.Start, Due: redisqtest.Start.Add(10 * time.Second), Weight: -1}, w.Next())
		peeked, err := r.Queue.ReadHints(r.Ctx, r.All())
		require.NoError(r, err)
		require.Equal(r, hints[0].Due, peeked[0].Due)
		r.Pass(10 * time.Second)
		h := r.Move()
		require.Equal(r, redisqtest.Start.Add(time.Minute), h.Due)
		require.Equal(r, 0, h.Weight)
		require.Equal(r, 0, w.Next().Weight, "the hint reports to others that the lane has work")
	}},
	{Name: "a hint reports the earlier time of a due delivery and a waiting lane", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Minute))
		r.Publish("a", "m1", "m2")
		r.Claim(redisqtest.One, 1)
		parked := redisqtest.Start.Add(time.Minute)
		for _, c := range []struct {
			id    string
			delay time.Duration
			want  time.Time
		}{{"m3", time.Hour, parked}, {"m4", time.Second, redisqtest.Start.Add(time.Second)}} {
			_, hints, err := r.Queue.Schedule(r.Ctx, redisqtest.One, 0, 0, []dispatcher.Entry{r.Entry(c.id, redisqtest.To("b"), redisqtest.Delay(c.delay))})
			require.NoError(r, err)
			require.Equal(r, c.want, hints[0].Due)
			peeked, err := r.Queue.ReadHints(r.Ctx, r.All())
			require.NoError(r, err)
			require.Equal(r, c.want, peeked[0].Due)
		}
	}},
	{Name: "a hint reports a resumed lane", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.Publish("a", "m1")
		w := r.Watch(redisqtest.Two)
		r.Resume("a")
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 0), w.Next().Weight)
	}},
	{Name: "every partition has a hint when all lanes are resumed", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		want := map[int]bool{}
		for _, lane := range redisqtest.ManyLanes(8) {
			r.PublishMany(lane, 1)
			want[r.Partition(lane)] = true
		}
		holdAll(r)
		w := r.Watch(redisqtest.Two)
		r.Resume(dispatcher.AllLanes)
		for len(want) > 0 {
			h := w.Next()
			require.GreaterOrEqual(r, h.Weight, 0)
			delete(want, h.Partition)
		}
	}},
	{Name: "a hint reports new work when all lanes are resumed", Run: func(r *redisqtest.Rig) {
		holdAll(r)
		w := r.Watch(redisqtest.Two)
		r.Publish("a", "m1")
		r.Resume(dispatcher.AllLanes)
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 0), w.Next().Weight, "no hint reported the new message")
	}},
	{Name: "a hint reports a breaker that an operator closes", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		r.Publish("a", "m1")
		w := r.Watch(redisqtest.Two)
		r.Resume("a")
		require.Equal(r, 0, w.Next().Weight)
	}},
	{Name: "a hint reports a rate that is removed", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Hour))
		r.Publish("a", "m1", "m2")
		r.Claim(redisqtest.One, 1)
		w := r.Watch(redisqtest.Two)
		r.Limit("a")
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 1), w.Next().Weight)
	}},
	{Name: "a hint reports the next delivery of a line", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Keyed("k"), redisqtest.Delay(time.Hour)))
		r.PublishKeyed("a", "k", "m2")
		w := r.Watch(redisqtest.Two)
		r.Cancel(redisqtest.Named("a", "m1"))
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 0), w.Next().Weight)
	}},
	{Name: "one call places a batch of parked lanes, and its hint reports the rest", Run: func(r *redisqtest.Rig) {
		const n = 300
		r.ScheduleFor(redisqtest.One, 1024, n, r.Entry("first", redisqtest.ManyLanes(n)))
		require.Len(r, r.Leases(redisqtest.One), n)
		r.Schedule(r.Entry("second", redisqtest.ManyLanes(n)))
		var batch []dispatcher.Settlement
		for _, id := range r.Leases(redisqtest.One) {
			batch = append(batch, redisqtest.Paused(dispatcher.Claimed{ID: id, Attempt: 1}, time.Hour, time.Second))
		}
		r.Settle(redisqtest.One, batch...)
		require.Empty(r, r.ClaimAll(redisqtest.One))
		r.Pass(time.Second)
		calls := 0
		for h := r.Move(); !h.Due.After(r.Now); h = r.Move() {
			calls++
			require.Less(r, calls, n, "it goes on moving")
		}
		require.Positive(r, calls)
		require.Len(r, r.ClaimAll(redisqtest.One), n)
	}},
	{Name: "a lane that must wait again at its turn is not lost", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		r.PublishMany("a", 3)
		c := r.Claim(redisqtest.One, 1)
		r.Pass(time.Second)
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 1), r.Move().Weight)
		r.MustSettle(redisqtest.One, redisqtest.Paused(c[0], time.Hour, time.Minute))
		require.Equal(r, r.Later(time.Minute), r.Move().Due)
		r.Pass(time.Minute)
		r.Move()
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
	}},
}
