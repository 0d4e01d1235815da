package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

const moveBatch = 128 // the number of deliveries that one call makes ready

// together schedules n deliveries of one lane for the same time and returns their IDs.
func together(r *redisqtest.Rig, lane dispatcher.Lane, n int, delay time.Duration) (ids []dispatcher.DeliveryID) {
	r.Helper()
	batch := make([]dispatcher.Entry, n)
	for i := range batch {
		id := fmt.Sprintf("%s-%s-%05d", lane, delay, i)
		batch[i] = r.Entry(id, redisqtest.To(lane), redisqtest.Delay(delay))
		ids = append(ids, redisqtest.Named(lane, id))
	}
	for _, s := range r.Schedule(batch...) {
		require.Equal(r, dispatcher.Accepted, s.Result)
	}
	return ids
}

// ShareCases are about a call that finds more due deliveries than it can move.
var ShareCases = []redisqtest.Case{
	{Name: "a crowd that is due at once delays no lane that is due after it", Run: func(r *redisqtest.Rig) {
		ids := together(r, "crowd", 2000, time.Second)
		r.Schedule(r.Entry("a1", redisqtest.To("a"), redisqtest.Delay(time.Second)), r.Entry("z1", redisqtest.To("z"), redisqtest.Delay(time.Second)))
		r.Schedule(r.Entry("z2", redisqtest.To("z"), redisqtest.Delay(time.Second+time.Millisecond)))
		r.Pass(time.Second + time.Millisecond)
		r.Move()
		ready := r.State().Ready
		require.Equal(r, redisqtest.IDs("a", "a1"), ready["a"])
		require.Equal(r, redisqtest.IDs("z", "z1", "z2"), ready["z"])
		require.Equal(r, ids[:moveBatch-3], ready["crowd"], "the crowd gets the rest of the call")
	}},
	{Name: "several crowds share a call with the lanes between and behind them", Run: func(r *redisqtest.Rig) {
		var crowds [][]dispatcher.DeliveryID
		for i := range 4 {
			lane := dispatcher.Lane(fmt.Sprintf("crowd%d", i))
			crowds = append(crowds, together(r, lane, 300+i, time.Second))
			r.Schedule(r.Entry(fmt.Sprintf("s%d", i), redisqtest.To(dispatcher.Lane(fmt.Sprintf("crowd%d-", i))), redisqtest.Delay(time.Second)))
		}
		later := together(r, "crowd9", 300, 1500*time.Millisecond)
		r.Schedule(r.Entry("s9", redisqtest.To("single9"), redisqtest.Delay(2*time.Second)))
		r.Pass(2 * time.Second)
		r.Move()
		ready := r.State().Ready
		for i := range 4 {
			single := dispatcher.Lane(fmt.Sprintf("crowd%d-", i))
			require.Equal(r, redisqtest.IDs(single, fmt.Sprintf("s%d", i)), ready[single])
			lane := dispatcher.Lane(fmt.Sprintf("crowd%d", i))
			require.GreaterOrEqual(r, len(ready[lane]), 4)
			require.Equal(r, crowds[i][:len(ready[lane])], ready[lane])
		}
		require.Equal(r, later[:4], ready["crowd9"])
		require.Equal(r, redisqtest.IDs("single9", "s9"), ready["single9"])
		total := 0
		for _, list := range ready {
			total += len(list)
		}
		require.Equal(r, moveBatch, total, "the call is full")
	}},
	{Name: "a crowd alone takes whole calls", Run: func(r *redisqtest.Rig) {
		ids := together(r, "crowd", 3*moveBatch, time.Second)
		r.Pass(time.Second)
		for i := range 3 {
			r.Move()
			require.Equal(r, ids[:(i+1)*moveBatch], r.State().Ready["crowd"])
		}
		require.Zero(r, r.Hints[0].Due)
	}},
	{Name: "later deliveries of a crowd's lane stay behind the crowd", Run: func(r *redisqtest.Rig) {
		first := together(r, "crowd", 500, time.Second)
		later := together(r, "crowd", 3, time.Second+time.Millisecond)
		last := together(r, "crowd", 300, time.Second+2*time.Millisecond)
		r.Schedule(r.Entry("z1", redisqtest.To("z"), redisqtest.Delay(time.Second+3*time.Millisecond)))
		r.Pass(time.Minute)
		r.Move()
		require.Equal(r, redisqtest.IDs("z", "z1"), r.State().Ready["z"])
		for !r.Move().Due.IsZero() {
		}
		require.Equal(r, append(append(first, later...), last...), r.State().Ready["crowd"])
	}},
	{Name: "a call checks only due deliveries", Run: func(r *redisqtest.Rig) {
		ids := together(r, "crowd", 200, time.Second)
		r.Schedule(r.Entry("z1", redisqtest.To("z"), redisqtest.Delay(2*time.Second)))
		r.Pass(time.Second)
		r.Move()
		require.Equal(r, ids[:moveBatch], r.State().Ready["crowd"])
		require.Empty(r, r.State().Ready["z"])
		require.Equal(r, redisqtest.Start.Add(time.Second), r.Hints[0].Due)
	}},
	{Name: "all crowds are moved even if one call cannot pass them all", Run: func(r *redisqtest.Rig) {
		want := map[dispatcher.Lane][]dispatcher.DeliveryID{}
		for _, lane := range redisqtest.ManyLanes(40) {
			want[lane] = together(r, lane, 20, time.Second)
		}
		r.Pass(time.Second)
		for calls := 1; !r.Move().Due.IsZero(); calls++ {
			require.Less(r, calls, 7, "each call is full")
		}
		require.Equal(r, want, r.State().Ready)
	}},
}

// NewcomerCases are about lanes of which no attempt has ended.
var NewcomerCases = []redisqtest.Case{
	{Name: "a new lane cannot take the last three permits", Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 1)
		require.Empty(r, r.ClaimWith(redisqtest.One, 64, 3))
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 4), 1)
	}},
	{Name: "a new lane with an attempt under way cannot take the last nine permits", Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 2)
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 10), 1, "it gets one at a time")
		require.Empty(r, r.ClaimWith(redisqtest.One, 64, 9))
		require.Len(r, r.ClaimWith(redisqtest.One, 64, 10), 1)
	}},
	{Name: "a claim reports of each delivery whether its lane is new", Run: func(r *redisqtest.Rig) {
		r.Succeed("seen")
		r.Publish("seen", "m1")
		r.Publish("new", "m2", "m3")
		for _, c := range r.Claim(redisqtest.One, 64) {
			require.Equal(r, c.ID.Lane == "new", c.NewLane, "%s", c.ID)
		}
		got := r.ScheduleFor(redisqtest.One, 128, 64, r.Entry("m4", redisqtest.To("seen", "other")))[0].Placed
		require.Equal(r, []bool{false, true}, []bool{got[0].NewLane, got[1].NewLane})
	}},
}
