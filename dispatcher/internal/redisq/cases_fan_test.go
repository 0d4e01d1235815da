package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// FanCases are about messages to several lanes.
var FanCases = []redisqtest.Case{
	{Name: "each lane of a fan-out decides by its own state", Setup: redisqtest.Setup{MaxWaiting: 2}, Run: fansOut},
	{Name: "each lane of a fan-out decides by its own state, over several partitions", Setup: redisqtest.Setup{Partitions: 4, MaxWaiting: 2}, Run: fansOut},
	{Name: "a conflict in one partition writes nothing in any", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(8)
		r.Schedule(r.Entry("m1", lanes[:1]))
		r.MustChangeNothing(func() {
			got := r.ScheduleFor(redisqtest.One, 512, 64, redisqtest.Fan(r.Entry("m1", lanes, redisqtest.Body("other"))))
			require.Equal(r, []dispatcher.ScheduleResult{{Result: dispatcher.Conflict}}, got)
		})
		require.Len(r, r.ClaimAll(redisqtest.One), 1)
	}},
	{Name: "a conflict does not prevent the other messages of its batch", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(8)
		r.Schedule(r.Entry("m1", lanes[3:4]))
		got := r.Schedule(redisqtest.Fan(r.Entry("m0", lanes)), redisqtest.Fan(r.Entry("m1", lanes, redisqtest.Body("other"))), redisqtest.Fan(r.Entry("m2", lanes)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.Conflict, got[1].Result)
		require.Equal(r, dispatcher.Accepted, got[2].Result)
		require.Len(r, redisqtest.Ready(got[2]), 8)
		require.Len(r, r.ClaimAll(redisqtest.One), 16)
	}},
	{Name: "the second message of an id in a batch is a conflict in every partition", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(8)
		got := r.Schedule(r.Entry("m1", lanes[:1]), redisqtest.Fan(r.Entry("m1", lanes, redisqtest.Body("other"))), redisqtest.Fan(r.Entry("m1", lanes)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Conflict}, got[1])
		require.NotEqual(r, dispatcher.Conflict, got[2].Result)
		claimed := r.ClaimAll(redisqtest.One)
		require.Len(r, claimed, 8)
		for _, c := range claimed {
			require.Equal(r, redisqtest.NewMessage("m1").Body, c.Message.Body)
		}
	}},
	{Name: "a conflict with a digest writes nothing either", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(8)
		r.Schedule(r.Entry("m1", lanes[2:3]))
		r.MustSettle(redisqtest.One, redisqtest.Success(r.ClaimAll(redisqtest.One)[0]))
		r.Trim(redisqtest.KeepDigests)
		r.MustChangeNothing(func() {
			require.Equal(r, dispatcher.Conflict, r.Schedule(redisqtest.Fan(r.Entry("m1", lanes, redisqtest.Body("other"))))[0].Result)
		})
	}},
	{Name: "a retry of a call that failed half-way adds the missing lanes", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(8)
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
		r.Schedule(redisqtest.Fan(r.Entry("m1", made)))
		for _, c := range r.ClaimAll(redisqtest.One) {
			r.MustSettle(redisqtest.One, redisqtest.Success(c))
		}
		r.Pass(time.Second)
		got := r.Schedule(redisqtest.Fan(r.Entry("m1", lanes)))
		require.NotEqual(r, dispatcher.Conflict, got[0].Result)
		require.ElementsMatch(r, missing, redisqtest.Ready(got[0]))
		require.ElementsMatch(r, missing, lanesOf(r.ClaimAll(redisqtest.One)))
		r.MustChangeNothing(func() {
			require.Equal(r, dispatcher.Duplicate, r.Schedule(redisqtest.Fan(r.Entry("m1", lanes)))[0].Result)
		})
		rec, err := r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, len(lanes))
	}},
	{Name: "a repeat adds the missing lanes in one partition", Run: func(r *redisqtest.Rig) {
		r.Schedule(redisqtest.Fan(r.Entry("m1", redisqtest.To("a", "b"))))
		got := r.ScheduleFor(redisqtest.One, 512, 64, redisqtest.Fan(r.Entry("m1", redisqtest.To("b", "c", "a", "d"))))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, redisqtest.To("c", "d"), redisqtest.Leased(got[0]))
		require.Len(r, r.Claim(redisqtest.One, 64), 2)
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a repeat does not change a delivery that ended at once", Setup: redisqtest.Setup{MaxWaiting: 1}, Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.Limit(redisqtest.EpTwo, redisqtest.Mode(dispatcher.LaneDeleted))
		r.Publish("a", "m0")
		e := redisqtest.Fan(r.Entry("m1", redisqtest.To(redisqtest.EpOne, redisqtest.EpTwo, "a")))
		r.Schedule(e)
		r.Limit(redisqtest.EpOne)
		r.MustChangeNothing(func() {
			got := r.Schedule(e)
			require.Equal(r, dispatcher.Duplicate, got[0].Result)
			require.Empty(r, redisqtest.Dead(got[0]))
			require.Empty(r, redisqtest.Cancelled(got[0]))
		})
	}},
	{Name: "a message whose deliveries all end at once is kept until it is trimmed", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.Limit(redisqtest.EpTwo, redisqtest.Mode(dispatcher.LaneDeleted))
		got := r.Schedule(redisqtest.Fan(r.Entry("m1", redisqtest.To(redisqtest.EpOne, redisqtest.EpTwo))))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		rec, err := r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 2)
		r.Trim(redisqtest.KeepNothing)
		mustBeForgotten(r, redisqtest.Named(redisqtest.EpOne, "m1"))
		mustBeForgotten(r, redisqtest.Named(redisqtest.EpTwo, "m1"))
	}},
	{Name: "one id to two single lanes of a partition is one message", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		require.Equal(r, dispatcher.Conflict, r.Schedule(r.Entry("m1", redisqtest.To("b"), redisqtest.Body("other")))[0].Result)
	}},
	{Name: "many fan-outs over partitions are accepted once each, even after a retry of the call", Setup: redisqtest.Spread, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(12)
		var batch []dispatcher.Entry
		for n := range 30 {
			batch = append(batch, redisqtest.Fan(r.Entry(fmt.Sprintf("m%02d", n), lanes[n%6:6+n%7])))
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
		for claimed := r.ClaimAll(redisqtest.One); len(claimed) > 0; claimed = r.ClaimAll(redisqtest.One) {
			sent += len(claimed)
			for _, c := range claimed {
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			}
		}
		require.Equal(r, want, sent)
	}},
}

// fansOut publishes one message to lanes of every kind.
func fansOut(r *redisqtest.Rig) {
	r.Limit("paused", redisqtest.Mode(dispatcher.LanePaused))
	r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
	r.Limit(redisqtest.EpTwo, redisqtest.Mode(dispatcher.LaneDeleted))
	r.Limit("ordered", redisqtest.Ordered)
	r.Publish("ordered", "m0")
	r.Publish("full", "n0", "n1")
	lanes := redisqtest.To("ordered", redisqtest.EpTwo, "new", "full", "paused", redisqtest.EpOne)
	got := r.Schedule(redisqtest.Fan(r.Entry("m1", lanes)))[0]
	require.Equal(r, dispatcher.Accepted, got.Result)
	require.ElementsMatch(r, redisqtest.To("new", "paused"), redisqtest.Ready(got))
	require.Equal(r, redisqtest.To("ordered"), redisqtest.Behind(got))
	require.Equal(r, redisqtest.To(redisqtest.EpTwo), redisqtest.Cancelled(got))
	require.Equal(r, map[dispatcher.Lane]dispatcher.DeadReason{
		redisqtest.EpOne: dispatcher.ReasonDisabled, "full": dispatcher.ReasonOverflow,
	}, redisqtest.Dead(got))
	require.Equal(r, map[dispatcher.Lane]int64{redisqtest.EpOne: 1, redisqtest.EpTwo: 1}, redisqtest.Versions(got))
	rec, err := r.Queue.Read(r.Ctx, "m1")
	require.NoError(r, err)
	statuses := map[dispatcher.Lane]dispatcher.Status{}
	for _, d := range rec.Deliveries {
		statuses[d.ID.Lane] = d.Status
	}
	require.Equal(r, map[dispatcher.Lane]dispatcher.Status{
		"new": dispatcher.StatusReady, "paused": dispatcher.StatusReady, "ordered": dispatcher.StatusScheduled,
		"full": dispatcher.StatusDead, redisqtest.EpOne: dispatcher.StatusDead, redisqtest.EpTwo: dispatcher.StatusCancelled,
	}, statuses)
}

func lanesOf(claimed []dispatcher.Claimed) []dispatcher.Lane {
	lanes := make([]dispatcher.Lane, len(claimed))
	for i, c := range claimed {
		lanes[i] = c.ID.Lane
	}
	return lanes
}
