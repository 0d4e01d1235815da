package deliveries

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// FanCases are about messages to several lanes.
var FanCases = []rig.Case{
	{Name: "each lane of a fan-out decides by its own state", Setup: stored.Setup{MaxWaiting: 2}, Run: fansOut},
	{Name: "each lane of a fan-out decides by its own state, over several partitions", Setup: stored.Setup{Partitions: 4, MaxWaiting: 2}, Run: fansOut},
	{Name: "a conflict in one partition writes nothing in any", Setup: rig.Spread, Run: func(r *rig.Rig) {
		lanes := rig.ManyLanes(8)
		r.Schedule(r.Entry("m1", lanes[:1]))
		r.MustChangeNothing(func() {
			got := r.ScheduleFor(rig.One, 512, 64, rig.Fan(r.Entry("m1", lanes, rig.Body("other"))))
			require.Equal(r, []dispatcher.ScheduleResult{{Result: dispatcher.Conflict}}, got)
		})
		require.Len(r, r.ClaimAll(rig.One), 1)
	}},
	{Name: "a conflict does not prevent the other messages of its batch", Setup: rig.Spread, Run: func(r *rig.Rig) {
		lanes := rig.ManyLanes(8)
		r.Schedule(r.Entry("m1", lanes[3:4]))
		got := r.Schedule(rig.Fan(r.Entry("m0", lanes)), rig.Fan(r.Entry("m1", lanes, rig.Body("other"))), rig.Fan(r.Entry("m2", lanes)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.Conflict, got[1].Result)
		require.Equal(r, dispatcher.Accepted, got[2].Result)
		require.Len(r, rig.Ready(got[2]), 8)
		require.Len(r, r.ClaimAll(rig.One), 16)
	}},
	{Name: "the second message of an id in a batch is a conflict in every partition", Setup: rig.Spread, Run: func(r *rig.Rig) {
		lanes := rig.ManyLanes(8)
		got := r.Schedule(r.Entry("m1", lanes[:1]), rig.Fan(r.Entry("m1", lanes, rig.Body("other"))), rig.Fan(r.Entry("m1", lanes)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Conflict}, got[1])
		require.NotEqual(r, dispatcher.Conflict, got[2].Result)
		claimed := r.ClaimAll(rig.One)
		require.Len(r, claimed, 8)
		for _, c := range claimed {
			require.Equal(r, rig.NewMessage("m1").Body, c.Message.Body)
		}
	}},
	{Name: "a conflict with a digest writes nothing either", Setup: rig.Spread, Run: func(r *rig.Rig) {
		lanes := rig.ManyLanes(8)
		r.Schedule(r.Entry("m1", lanes[2:3]))
		r.MustSettle(rig.One, rig.Success(r.ClaimAll(rig.One)[0]))
		r.Trim(rig.KeepDigests)
		r.MustChangeNothing(func() {
			require.Equal(r, dispatcher.Conflict, r.Schedule(rig.Fan(r.Entry("m1", lanes, rig.Body("other"))))[0].Result)
		})
	}},
	{Name: "a retry of a call that failed half-way adds the missing lanes", Setup: rig.Spread, Run: func(r *rig.Rig) {
		lanes := rig.ManyLanes(8)
		first := r.Partition(lanes[0])
		var made, missing []dispatcher.Lane
		for _, lane := range lanes {
			if r.Partition(lane) == first {
				made = append(made, lane)
			} else {
				missing = append(missing, lane)
			}
		}
		require.NotEmpty(r, missing)
		r.Schedule(rig.Fan(r.Entry("m1", made)))
		for _, c := range r.ClaimAll(rig.One) {
			r.MustSettle(rig.One, rig.Success(c))
		}
		r.Pass(time.Second)
		got := r.Schedule(rig.Fan(r.Entry("m1", lanes)))
		require.NotEqual(r, dispatcher.Conflict, got[0].Result)
		require.ElementsMatch(r, missing, rig.Ready(got[0]))
		require.ElementsMatch(r, missing, lanesOf(r.ClaimAll(rig.One)))
		r.MustChangeNothing(func() {
			require.Equal(r, dispatcher.Duplicate, r.Schedule(rig.Fan(r.Entry("m1", lanes)))[0].Result)
		})
		rec, err := r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, len(lanes))
	}},
	{Name: "a repeat adds the missing lanes in one partition", Run: func(r *rig.Rig) {
		r.Schedule(rig.Fan(r.Entry("m1", rig.To("a", "b"))))
		got := r.ScheduleFor(rig.One, 512, 64, rig.Fan(r.Entry("m1", rig.To("b", "c", "a", "d"))))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, rig.To("c", "d"), rig.Leased(got[0]))
		require.Len(r, r.Claim(rig.One, 64), 2)
		r.MustClaimNothing(rig.One)
	}},
	{Name: "a repeat does not change a delivery that ended at once", Setup: stored.Setup{MaxWaiting: 1}, Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDisabled))
		r.Limit(rig.EpTwo, rig.Mode(dispatcher.LaneDeleted))
		r.Publish("a", "m0")
		e := rig.Fan(r.Entry("m1", rig.To(rig.EpOne, rig.EpTwo, "a")))
		r.Schedule(e)
		r.Limit(rig.EpOne)
		r.MustChangeNothing(func() {
			got := r.Schedule(e)
			require.Equal(r, dispatcher.Duplicate, got[0].Result)
			require.Empty(r, rig.Dead(got[0]))
			require.Empty(r, rig.Cancelled(got[0]))
		})
	}},
	{Name: "a message whose deliveries all end at once is kept until it is trimmed", Setup: rig.Spread, Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDisabled))
		r.Limit(rig.EpTwo, rig.Mode(dispatcher.LaneDeleted))
		got := r.Schedule(rig.Fan(r.Entry("m1", rig.To(rig.EpOne, rig.EpTwo))))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		rec, err := r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 2)
		r.Trim(rig.KeepNothing)
		mustBeForgotten(r, rig.Named(rig.EpOne, "m1"))
		mustBeForgotten(r, rig.Named(rig.EpTwo, "m1"))
	}},
	{Name: "one id to two single lanes of a partition is one message", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		require.Equal(r, dispatcher.Conflict, r.Schedule(r.Entry("m1", rig.To("b"), rig.Body("other")))[0].Result)
	}},
	{Name: "many fan-outs over partitions are accepted once each, even after a retry of the call", Setup: rig.Spread, Run: func(r *rig.Rig) {
		lanes := rig.ManyLanes(12)
		var batch []dispatcher.Entry
		for n := range 30 {
			batch = append(batch, rig.Fan(r.Entry(fmt.Sprintf("m%02d", n), lanes[n%6:6+n%7])))
		}
		want := 0
		for _, e := range batch {
			want += len(e.Lanes)
		}
		r.Schedule(batch...)
		r.MustChangeNothing(func() {
			for _, s := range r.Schedule(batch...) {
				require.Equal(r, dispatcher.Duplicate, s.Result)
			}
		})
		sent := 0
		for claimed := r.ClaimAll(rig.One); len(claimed) > 0; claimed = r.ClaimAll(rig.One) {
			sent += len(claimed)
			for _, c := range claimed {
				r.MustSettle(rig.One, rig.Success(c))
			}
		}
		require.Equal(r, want, sent)
	}},
}

// fansOut publishes one message to lanes of every kind.
func fansOut(r *rig.Rig) {
	r.Limit("paused", rig.Mode(dispatcher.LanePaused))
	r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDisabled))
	r.Limit(rig.EpTwo, rig.Mode(dispatcher.LaneDeleted))
	r.Limit("ordered", rig.Ordered)
	r.Publish("ordered", "m0")
	r.Publish("full", "n0", "n1")
	lanes := rig.To("ordered", rig.EpTwo, "new", "full", "paused", rig.EpOne)
	got := r.Schedule(rig.Fan(r.Entry("m1", lanes)))[0]
	require.Equal(r, dispatcher.Accepted, got.Result)
	require.ElementsMatch(r, rig.To("new", "paused"), rig.Ready(got))
	require.Equal(r, rig.To("ordered"), rig.Behind(got))
	require.Equal(r, rig.To(rig.EpTwo), rig.Cancelled(got))
	require.Equal(r, map[dispatcher.Lane]dispatcher.DeadReason{
		rig.EpOne: dispatcher.ReasonDisabled, "full": dispatcher.ReasonOverflow,
	}, rig.Dead(got))
	require.Equal(r, map[dispatcher.Lane]int64{rig.EpOne: 1, rig.EpTwo: 1}, rig.Versions(got))
	rec, err := r.Queue.Read(r.Ctx, "m1")
	require.NoError(r, err)
	statuses := map[dispatcher.Lane]dispatcher.Status{}
	for _, d := range rec.Deliveries {
		statuses[d.ID.Lane] = d.Status
	}
	require.Equal(r, map[dispatcher.Lane]dispatcher.Status{
		"new": dispatcher.StatusReady, "paused": dispatcher.StatusReady, "ordered": dispatcher.StatusScheduled,
		"full": dispatcher.StatusDead, rig.EpOne: dispatcher.StatusDead, rig.EpTwo: dispatcher.StatusCancelled,
	}, statuses)
}

func lanesOf(claimed []dispatcher.Claimed) []dispatcher.Lane {
	lanes := make([]dispatcher.Lane, len(claimed))
	for i, c := range claimed {
		lanes[i] = c.ID.Lane
	}
	return lanes
}
