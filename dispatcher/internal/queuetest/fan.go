package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// spread has several partitions, over which a fan-out goes.
var spread = Setup{Partitions: 4}

// fanCases are about messages that go to several lanes.
var fanCases = []testCase{
	{name: "each lane of a fan-out takes it by its own state", setup: Setup{MaxWaiting: 2}, run: fansOut},
	{name: "each lane of a fan-out takes it by its own state, over several partitions", setup: Setup{Partitions: 4, MaxWaiting: 2}, run: fansOut},
	{name: "a conflict in one partition writes nothing in any", setup: spread, run: func(r *rig) {
		lanes := manyLanes(8)
		r.schedule(r.entry("m1", lanes[:1]))
		r.mustChangeNothing(func() {
			got := r.scheduleFor(one, 512, 64, fan(r.entry("m1", lanes, body("other"))))
			require.Equal(r, []dispatcher.ScheduleResult{{Result: dispatcher.Conflict}}, got)
		})
		require.Len(r, r.claimAll(one), 1)
	}},
	{name: "a conflict keeps nothing else of its batch from being made", setup: spread, run: func(r *rig) {
		lanes := manyLanes(8)
		r.schedule(r.entry("m1", lanes[3:4]))
		got := r.schedule(fan(r.entry("m0", lanes)), fan(r.entry("m1", lanes, body("other"))), fan(r.entry("m2", lanes)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.Conflict, got[1].Result)
		require.Equal(r, dispatcher.Accepted, got[2].Result)
		require.Len(r, got[2].Ready, 8)
		require.Len(r, r.claimAll(one), 16)
	}},
	{name: "of two of one id in a batch the second is a conflict in every partition", setup: spread, run: func(r *rig) {
		lanes := manyLanes(8)
		got := r.schedule(r.entry("m1", lanes[:1]), fan(r.entry("m1", lanes, body("other"))), fan(r.entry("m1", lanes)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, dispatcher.ScheduleResult{Result: dispatcher.Conflict}, got[1])
		require.NotEqual(r, dispatcher.Conflict, got[2].Result)
		claimed := r.claimAll(one)
		require.Len(r, claimed, 8)
		for _, c := range claimed {
			require.Equal(r, newMessage("m1").Body, c.Message.Body)
		}
	}},
	{name: "a conflict with what was cut to its digest writes nothing either", setup: spread, run: func(r *rig) {
		lanes := manyLanes(8)
		r.schedule(r.entry("m1", lanes[2:3]))
		r.mustSettle(one, success(r.claimAll(one)[0]))
		r.trim(keepDigests)
		r.mustChangeNothing(func() {
			require.Equal(r, dispatcher.Conflict, r.schedule(fan(r.entry("m1", lanes, body("other"))))[0].Result)
		})
	}},
	{name: "a repeat makes the lanes that a call which failed half-way left out", setup: spread, run: func(r *rig) {
		lanes := manyLanes(8)
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
		r.schedule(fan(r.entry("m1", made)))
		for _, c := range r.claimAll(one) {
			r.mustSettle(one, success(c))
		}
		r.pass(time.Second)
		got := r.schedule(fan(r.entry("m1", lanes)))
		require.NotEqual(r, dispatcher.Conflict, got[0].Result)
		require.ElementsMatch(r, missing, got[0].Ready)
		require.ElementsMatch(r, missing, lanesOf(r.claimAll(one)))
		r.mustChangeNothing(func() {
			require.Equal(r, dispatcher.Duplicate, r.schedule(fan(r.entry("m1", lanes)))[0].Result)
		})
		rec, err := r.Queue.Read(r.ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, len(lanes))
	}},
	{name: "a repeat makes the lanes that were left out in one partition", run: func(r *rig) {
		r.schedule(fan(r.entry("m1", to("a", "b"))))
		got := r.scheduleFor(one, 512, 64, fan(r.entry("m1", to("b", "c", "a", "d"))))
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		require.Equal(r, to("c", "d"), got[0].Leased)
		require.Len(r, r.claim(one, 64), 2)
		r.mustClaimNothing(one)
	}},
	{name: "a repeat does not change a delivery that ended at once", setup: Setup{MaxWaiting: 1}, run: func(r *rig) {
		r.limit(epOne, held(dispatcher.HeldDisabled))
		r.limit(epTwo, held(dispatcher.HeldDeleted))
		r.publish("a", "m0")
		e := fan(r.entry("m1", to(epOne, epTwo, "a")))
		r.schedule(e)
		r.limit(epOne)
		r.mustChangeNothing(func() {
			got := r.schedule(e)
			require.Equal(r, dispatcher.Duplicate, got[0].Result)
			require.Empty(r, got[0].Dead)
			require.Empty(r, got[0].Cancelled)
		})
	}},
	{name: "a message whose deliveries all end at once is kept until it is trimmed", setup: spread, run: func(r *rig) {
		r.limit(epOne, held(dispatcher.HeldDisabled))
		r.limit(epTwo, held(dispatcher.HeldDeleted))
		got := r.schedule(fan(r.entry("m1", to(epOne, epTwo))))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		rec, err := r.Queue.Read(r.ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 2)
		r.trim(keepNothing)
		r.mustBeForgotten(named(epOne, "m1"))
		r.mustBeForgotten(named(epTwo, "m1"))
	}},
	{name: "one id to two single lanes of a partition is one message", run: func(r *rig) {
		r.publish("a", "m1")
		require.Equal(r, dispatcher.Conflict, r.schedule(r.entry("m1", to("b"), body("other")))[0].Result)
	}},
	{name: "many fan-outs over partitions are made once each, also when they are repeated", setup: spread, run: func(r *rig) {
		lanes := manyLanes(12)
		var batch []dispatcher.Entry
		for n := range 30 {
			batch = append(batch, fan(r.entry(fmt.Sprintf("m%02d", n), lanes[n%6:6+n%7])))
		}
		want := 0
		for _, e := range batch {
			want += len(e.Lanes)
		}
		r.schedule(batch...)
		r.mustChangeNothing(func() {
			for _, s := range r.schedule(batch...) {
				require.Equal(r, dispatcher.Duplicate, s.Result)
			}
		})
		sent := 0
		for claimed := r.claimAll(one); len(claimed) > 0; claimed = r.claimAll(one) {
			sent += len(claimed)
			for _, c := range claimed {
				r.mustSettle(one, success(c))
			}
		}
		require.Equal(r, want, sent)
	}},
}

// fansOut sends one message to lanes of every kind.
func fansOut(r *rig) {
	r.limit("paused", held(dispatcher.HeldPaused))
	r.limit(epOne, held(dispatcher.HeldDisabled))
	r.limit(epTwo, held(dispatcher.HeldDeleted))
	r.limit("ordered", ordered)
	r.publish("ordered", "m0")
	r.publish("full", "n0", "n1")
	lanes := to("ordered", epTwo, "new", "full", "paused", epOne)
	got := r.schedule(fan(r.entry("m1", lanes)))[0]
	require.Equal(r, dispatcher.Accepted, got.Result)
	require.ElementsMatch(r, to("new", "paused"), got.Ready)
	require.Equal(r, to("ordered"), got.Behind)
	require.Equal(r, to(epTwo), got.Cancelled)
	require.Equal(r, map[dispatcher.Lane]dispatcher.DeadReason{
		epOne: dispatcher.ReasonDisabled, "full": dispatcher.ReasonOverflow,
	}, got.Dead)
	require.Equal(r, map[dispatcher.Lane]int64{epOne: 1, epTwo: 1}, got.Versions)
	rec, err := r.Queue.Read(r.ctx, "m1")
	require.NoError(r, err)
	statuses := map[dispatcher.Lane]dispatcher.Status{}
	for _, d := range rec.Deliveries {
		statuses[d.ID.Lane] = d.Status
	}
	require.Equal(r, map[dispatcher.Lane]dispatcher.Status{
		"new": dispatcher.StatusReady, "paused": dispatcher.StatusReady, "ordered": dispatcher.StatusScheduled,
		"full": dispatcher.StatusDead, epOne: dispatcher.StatusDead, epTwo: dispatcher.StatusCancelled,
	}, statuses)
}

func lanesOf(claimed []dispatcher.Claimed) []dispatcher.Lane {
	lanes := make([]dispatcher.Lane, len(claimed))
	for i, c := range claimed {
		lanes[i] = c.ID.Lane
	}
	return lanes
}
