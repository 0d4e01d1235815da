package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// limitCases are about the copy of an endpoint's limits, and the number of
// deliveries in flight.
var limitCases = []testCase{
	{name: "an endpoint's lane without limits is not claimed from", run: func(r *rig) {
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to(epOne)))
		require.Equal(r, to(epOne), got[0].Ready)
		require.Equal(r, map[dispatcher.Lane]int64{epOne: 0}, got[0].Versions)
		r.schedule(r.entry("m2", to(epOne), delay(time.Second)))
		r.pass(time.Second)
		require.Equal(r, -1, r.move().Weight)
		r.mustClaimNothing(one)
		require.Equal(r, ids(epOne, "m1", "m2"), r.State().Ready[epOne])
		_, hints := r.limitAs(epOne, r.newLimits(epOne), false)
		require.Equal(r, r.setup.weight(4, 0), hints[0].Weight)
		require.Equal(r, ids(epOne, "m1", "m2"), claimedIDs(r.claim(one, 64)))
	}},
	{name: "limits stay when the work of their lane has ended", run: func(r *rig) {
		r.limit(epOne)
		r.publish(epOne, "m1", "m2")
		c := r.claim(one, 2)
		r.mustSettle(one, success(c[0]))
		r.mustSettle(one, success(c[1]))
		r.pass(time.Hour)
		require.Zero(r, r.trim(keepAll).Lanes)
		require.True(r, r.State().Lanes[epOne].Limited, "an endpoint's limits are not forgotten")
	}},
	{name: "claim and schedule tell the version of a lane's limits", run: func(r *rig) {
		for v := int64(1); v <= 3; v++ {
			r.limit(epOne)
			id := r.newID()
			got := r.schedule(r.entry(id, to(epOne, "a")))
			require.Equal(r, map[dispatcher.Lane]int64{epOne: v}, got[0].Versions)
			for _, c := range r.claim(one, 2) {
				want := int64(0)
				if c.ID.Lane == epOne {
					want = v
				}
				require.Equal(r, want, c.Version, "%s", c.ID)
				r.mustSettle(one, success(c))
			}
		}
		require.Nil(r, r.schedule(r.entry("plain", to("a")))[0].Versions)
	}},
	{name: "each endpoint's lane of a fan-out has its own version", run: func(r *rig) {
		r.limit(epOne)
		r.limit(epOne)
		r.limit(epTwo)
		got := r.scheduleFor(one, 512, 64, fan(r.entry("m1", to(epOne, epTwo, "a"))))
		require.Equal(r, map[dispatcher.Lane]int64{epOne: 2, epTwo: 1}, got[0].Versions)
	}},
	{name: "older limits change nothing, nor do the same again", run: func(r *rig) {
		r.limitAs(epOne, dispatcher.LaneLimits{Version: 3, MaxInFlight: 7, Interval: time.Millisecond, Ordered: true}, false)
		r.publish(epOne, "m1")
		r.mustChangeNothing(func() {
			for v := int64(1); v <= 3; v++ {
				r.limitAs(epOne, dispatcher.LaneLimits{Version: v, Held: dispatcher.HeldDeleted}, false)
			}
		})
		want := dispatcher.LaneLimits{Version: 3, MaxInFlight: 7, Interval: time.Millisecond, Ordered: true}
		require.Equal(r, want, r.State().Lanes[epOne].Limits)
		require.Equal(r, want, r.laneState(epOne).Limits)
	}},
	{name: "a breaker is closed beside limits that are not newer", setup: Setup{Breaker: 1}, run: func(r *rig) {
		r.limit(epOne)
		r.mustSettle(one, blamed(failure(r.takeNew(epOne), time.Hour)))
		_, hints := r.limitAs(epOne, dispatcher.LaneLimits{Version: 1, Held: dispatcher.HeldPaused}, true)
		require.Equal(r, to(epOne), hints[0].Closed)
		lane := r.State().Lanes[epOne]
		require.Zero(r, lane.Opened)
		require.Equal(r, dispatcher.HeldNone, lane.Limits.Held)
	}},
	{name: "limits of a lane without an endpoint are written in any case, and go when they say nothing", run: func(r *rig) {
		r.limit("a", held(dispatcher.HeldPaused), most(3))
		require.Equal(r, dispatcher.LaneLimits{MaxInFlight: 3, Held: dispatcher.HeldPaused}, r.State().Lanes["a"].Limits)
		r.limit("a", held(dispatcher.HeldPaused))
		require.Equal(r, dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, r.State().Lanes["a"].Limits)
		r.resume("a")
		require.False(r, r.State().Lanes["a"].Limited)
	}},
	{name: "a limit above the store's default holds over all instances", setup: Setup{LaneMaxInFlight: 3}, run: func(r *rig) {
		r.limit(epOne, most(5))
		for range 8 {
			r.succeed(epOne)
		}
		require.Equal(r, 5, r.State().Lanes[epOne].Window)
		r.publishMany(epOne, 9)
		require.Len(r, r.claim(one, 3), 3)
		require.Len(r, r.claim(two, 64), 2)
		r.mustClaimNothing(one)
		require.Equal(r, "limit", r.look(named(epOne, "n00017")).WaitingFor)
	}},
	{name: "a limit below the first window holds at once", run: func(r *rig) {
		r.limit(epOne, most(1))
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to(epOne)), r.entry("m2", to(epOne)))
		require.Equal(r, to(epOne), got[0].Leased)
		require.Equal(r, to(epOne), got[1].Ready)
		r.mustClaimNothing(two)
		require.Equal(r, 1, r.State().Lanes[epOne].Window, "it begins there")
	}},
	{name: "a new lane that is resumed begins with its limits", setup: Setup{LaneMaxInFlight: 1}, run: func(r *rig) {
		r.limitAs(epOne, r.newLimits(epOne, most(5)), true)
		require.False(r, r.State().Lanes[epOne].Known, "there is nothing to clear")
		r.publishMany(epOne, 3)
		require.Len(r, r.claim(one, 64), 2)
	}},
	{name: "no attempt begins under a lowered limit until enough have ended", run: func(r *rig) {
		r.limit(epOne)
		for range 4 {
			r.succeed(epOne)
		}
		r.publishMany(epOne, 8)
		claimed := r.claim(one, 3)
		r.limit(epOne, most(2))
		r.mustClaimNothing(two)
		r.mustSettle(one, failure(claimed[0], time.Hour))
		r.mustClaimNothing(two)
		r.mustSettle(one, failure(claimed[1], time.Hour))
		require.Len(r, r.claim(two, 64), 1)
	}},
	{name: "a raised limit lets more attempts begin at once, and a hint tells so", run: func(r *rig) {
		r.limit(epOne)
		r.publishMany(epOne, 3)
		r.limit(epOne, ordered)
		require.Len(r, r.claim(one, 64), 1)
		w := r.watch(two)
		_, hints := r.limitAs(epOne, r.newLimits(epOne), false)
		require.Equal(r, r.setup.weight(4, 1), hints[0].Weight, "one in flight, and never seen")
		require.Equal(r, r.setup.weight(4, 1), w.next().Weight)
		require.Len(r, r.claim(two, 64), 1)
	}},
	{name: "the window keeps to a limit that was lowered while it grew", run: func(r *rig) {
		r.limit(epOne)
		for range 8 {
			r.succeed(epOne)
		}
		r.limit(epOne, most(4))
		r.fallSilent(epOne)
		require.Equal(r, 2, r.State().Lanes[epOne].Window, "half of what it was allowed")
	}},
	{name: "a change of limits answers the counts of the lane", run: func(r *rig) {
		require.Equal(r, dispatcher.LaneCount{}, r.limit(epOne))
		r.publish(epOne, "m1", "m2", "m3")
		r.schedule(r.entry("m4", to(epOne), delay(time.Hour)))
		r.publishKeyed(epOne, "k", "m5", "m6")
		r.claim(one, 64)
		require.Equal(r, dispatcher.LaneCount{InFlight: 2, Waiting: 4}, r.limit(epOne, held(dispatcher.HeldDeleted)))
	}},
	{name: "limits are kept by the lane's own partition", setup: Setup{Partitions: 4}, run: func(r *rig) {
		for _, lane := range []dispatcher.Lane{epOne, epTwo, "a", "b", "c"} {
			r.limit(lane, most(1))
			r.publishMany(lane, 3)
		}
		require.Len(r, r.claimAll(one), 5)
	}},
	{name: "a lane with limits is not forgotten, one without is an hour later", run: func(r *rig) {
		r.limit(epOne, most(3))
		r.limit("a", held(dispatcher.HeldPaused))
		r.pass(2 * time.Hour)
		require.Zero(r, r.trim(keepAll).Lanes)
		state := r.State()
		require.True(r, state.Lanes[epOne].Limited)
		require.Equal(r, dispatcher.HeldPaused, state.Lanes["a"].Limits.Held)
		r.resume("a")
		r.pass(time.Hour)
		require.Equal(r, 1, r.trim(keepAll).Lanes)
		require.NotContains(r, r.State().Lanes, dispatcher.Lane("a"))
	}},
	{name: "limits that come and go keep no lane from being forgotten", run: func(r *rig) {
		r.succeed("a")
		r.pass(time.Hour - time.Millisecond)
		r.limit("a", held(dispatcher.HeldPaused))
		r.resume("a")
		r.pass(time.Millisecond)
		require.Equal(r, 1, r.trim(keepAll).Lanes)
	}},
	{name: "a deleted lane is forgotten once nothing is left in it", run: func(r *rig) {
		r.limit(epOne, ordered)
		r.publish(epOne, "m1", "m2")
		c := r.mustClaim(one, named(epOne, "m1"))[0]
		r.limit(epOne, held(dispatcher.HeldDeleted))
		r.pass(time.Hour)
		require.Zero(r, r.trim(keepAll).Lanes, "one is in flight")
		r.settle(one, failure(c, time.Hour))
		r.pass(time.Hour)
		require.Equal(r, 1, r.trim(keepAll).Lanes)
		require.NotContains(r, r.State().Lanes, epOne)
	}},
}
