package deliveries

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
)

// RoomCases are about forgetting when memory is short.
var RoomCases = []rig.Case{
	{Name: "room takes the oldest finished work 15 s after it was published, and leaves its id", Run: func(r *rig.Rig) {
		id := r.EndOne("a")
		r.Pass(rig.RoomLeaves - time.Millisecond)
		r.MustChangeNothing(func() { require.Zero(r, r.TrimOnce(rig.KeepAll, true).Finished) })
		r.Pass(time.Millisecond)
		dead := r.DieOne("a")
		r.Publish("b", "m1")
		require.Equal(r, 1, r.TrimOnce(rig.KeepAll, true).Finished)
		require.Empty(r, r.State().Found[id])
		require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry(id.Message, rig.To("a")))[0].Result, "it is not delivered again")
		require.Equal(r, dispatcher.Conflict, r.Schedule(r.Entry(id.Message, rig.To("a"), rig.Body("other")))[0].Result)
		r.MustStand(dead, dispatcher.StatusDead)
		r.MustStand(rig.Named("b", "m1"), dispatcher.StatusReady)
	}},
	{Name: "room takes ids as well", Run: func(r *rig.Rig) {
		id := r.EndOne("a")
		r.Trim(rig.KeepDigests)
		require.Zero(r, r.TrimOnce(rig.KeepAll, true).Seen, "young")
		r.Pass(rig.RoomLeaves)
		require.Equal(r, 1, r.TrimOnce(rig.KeepAll, true).Seen)
		require.Equal(r, dispatcher.Accepted, r.Schedule(r.Entry(id.Message, rig.To("a"), rig.Body("other")))[0].Result)
	}},
	{Name: "room takes ids only where nothing else goes", Run: func(r *rig.Rig) {
		id := r.EndOne("a")
		r.Trim(rig.KeepDigests)
		r.EndOne("a")
		r.Pass(rig.RoomLeaves)
		young := r.EndOne("a")
		got := r.TrimOnce(rig.KeepAll, true)
		require.Equal(r, [2]int{1, 0}, [2]int{got.Finished, got.Seen})
		require.Equal(r, dispatcher.Duplicate, r.Schedule(r.Entry(id.Message, rig.To("a")))[0].Result)
		got = r.TrimOnce(rig.KeepAll, true)
		require.Equal(r, [2]int{0, 1}, [2]int{got.Finished, got.Seen})
		r.MustStand(young, dispatcher.StatusDelivered)
		require.Zero(r, r.TrimOnce(rig.KeepAll, true))
	}},
	{Name: "room takes a delivery that has just ended, if its message is old, and leaves young messages", Run: func(r *rig.Rig) {
		r.Publish("b", "old")
		r.Schedule(r.Entry("cancelled", rig.To("b"), rig.Delay(time.Hour)))
		c := r.MustClaim(rig.One, rig.Named("b", "old"))[0]
		r.Pass(rig.RoomLeaves)
		young := r.EndOne("a")
		r.Pass(time.Millisecond)
		r.MustSettle(rig.One, rig.Success(c))
		require.Equal(r, 1, r.TrimOnce(rig.KeepAll, true).Finished)
		mustBeForgotten(r, rig.Named("b", "old"))
		r.Cancel(rig.Named("b", "cancelled"))
		require.Equal(r, 1, r.TrimOnce(rig.KeepAll, true).Finished, "though a delivered one ended before")
		r.MustStand(young, dispatcher.StatusDelivered)
	}},
	{Name: "making room again and again comes to an end", Run: func(r *rig.Rig) {
		succeedMany(r, "a", 40)
		r.DieOne("a")
		r.Pass(rig.RoomLeaves)
		for calls := 1; r.TrimOnce(rig.KeepAll, true).More; calls++ {
			require.Less(r, calls, 100, "it never ends")
		}
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusDead: 1}, r.State().Counts)
	}},
}
