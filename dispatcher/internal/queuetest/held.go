package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// heldCases are about paused lanes, one or all of them.
var heldCases = []testCase{
	{name: "a message to a paused lane is accepted and held", run: func(r *rig) {
		r.limit("a", held(dispatcher.HeldPaused))
		got := r.scheduleFor(one, 512, 64, r.entry("m1", to("a")), r.entry("m2", to("a"), delay(time.Minute)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, to("a"), got[0].Ready)
		require.Empty(r, got[0].Leased)
		r.mustClaimNothing(one)
		require.Equal(r, "paused", r.mustStand(named("a", "m1"), dispatcher.StatusReady).WaitingFor)
		require.Equal(r, "paused", r.mustStand(named("a", "m2"), dispatcher.StatusScheduled).WaitingFor)
		r.pass(time.Minute)
		require.Equal(r, -1, r.move().Weight)
		r.mustStand(named("a", "m2"), dispatcher.StatusReady)
		r.mustClaimNothing(one)
	}},
	{name: "a paused lane does not hold others", run: func(r *rig) {
		r.limit("a", held(dispatcher.HeldPaused))
		r.publish("a", "m1")
		r.publish("b", "m2")
		r.mustClaim(one, named("b", "m2"))
	}},
	{name: "a resumed lane goes on in its order", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		r.limit("a", held(dispatcher.HeldPaused))
		r.publish("a", "m3")
		r.mustClaimNothing(one)
		require.Equal(r, r.setup.weight(4, 0), r.resume("a")[0].Weight)
		require.Equal(r, ids("a", "m1", "m2"), claimedIDs(r.claim(one, 64)))
	}},
	{name: "a second pause changes nothing, nor does a resume of a lane that is not paused", run: func(r *rig) {
		r.publish("a", "m1")
		r.resume("a")
		r.mustChangeNothing(func() { r.resume("a") })
		r.limit("a", held(dispatcher.HeldPaused))
		r.mustChangeNothing(func() { r.limit("a", held(dispatcher.HeldPaused)) })
	}},
	{name: "attempts in flight when their lane is paused end as usual", run: func(r *rig) {
		for range 3 {
			r.succeed("a")
		}
		r.publish("a", "m1", "m2", "m3", "m4", "m5")
		c := r.claim(one, 4)
		r.limit("a", held(dispatcher.HeldPaused))
		r.settle(one, success(c[0]), failure(c[1], time.Minute), death(c[2], dispatcher.ReasonGone), handBack(c[3]))
		r.mustLie(PlaceDone, "a", "m1")
		r.mustLie(PlaceDue, "a", "m2")
		r.mustLie(PlaceDead, "a", "m3")
		require.Equal(r, ids("a", "m4", "m5"), r.State().Ready["a"])
		r.mustClaimNothing(one)
	}},
	{name: "deliveries of a dead instance wait in their paused lane", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustClaim(one, named("a", "m1"))
		r.limit("a", held(dispatcher.HeldPaused))
		require.Equal(r, 1, r.reap(one))
		r.mustClaimNothing(two)
		r.resume("a")
		r.mustClaim(two, named("a", "m1"))
	}},
	{name: "deliveries of a paused lane can be cancelled and retried", run: func(r *rig) {
		r.limit("a", held(dispatcher.HeldPaused))
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)), r.entry("m2", to("a"), delay(time.Hour)))
		r.publish("a", "m3")
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		require.Equal(r, []bool{true, true}, r.cancel(named("a", "m2"), named("a", "m3")))
		r.mustClaimNothing(one)
		r.mustStand(named("a", "m2"), dispatcher.StatusCancelled)
		r.mustStand(named("a", "m3"), dispatcher.StatusCancelled)
		r.resume("a")
		require.Equal(r, ids("a", "m1"), claimedIDs(r.claim(one, 64)))
	}},
	{name: "an endpoint's lane is paused and resumed by its versions", run: func(r *rig) {
		r.limit(epOne, held(dispatcher.HeldPaused), most(7))
		r.publish(epOne, "m1")
		r.mustClaimNothing(one)
		r.limit(epOne, most(7))
		require.Equal(r, int64(2), r.mustClaim(one, named(epOne, "m1"))[0].Version)
	}},
	{name: "all lanes are held at once, in every partition", setup: Setup{Partitions: 4}, run: func(r *rig) {
		for _, lane := range manyLanes(8) {
			r.publishMany(lane, 1)
		}
		r.holdAll()
		require.Empty(r, r.claimAll(one))
		got := r.scheduleFor(one, 512, 64, r.entry("m1", manyLanes(12)))
		require.Len(r, got[0].Ready, 12)
		require.Empty(r, r.leases(one))
		require.Equal(r, "paused", r.look(named("lane000", "m1")).WaitingFor)
		r.resume(dispatcher.AllLanes)
		require.False(r, r.State().AllHeld)
		require.Len(r, r.claimAll(one), 20)
	}},
	{name: "while all lanes are held only attempts stop", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		r.schedule(r.entry("m3", to("b"), delay(time.Second)), r.entry("m4", to("b"), delay(time.Hour)))
		c := r.claim(one, 64)
		r.holdAll()
		r.pass(time.Second)
		require.Equal(r, -1, r.move().Weight)
		r.mustLie(PlaceReady, "b", "m3")
		r.mustSettle(one, success(c[0]))
		r.mustSettle(one, handBack(c[1]))
		r.retry(named("b", "m4"))
		r.cancel(named("b", "m3"))
		r.mustStand(named("b", "m3"), dispatcher.StatusCancelled)
		r.mustClaimNothing(one)
		r.resume(dispatcher.AllLanes)
		require.Equal(r, []dispatcher.DeliveryID{named("a", "m2"), named("b", "m4")}, claimedIDs(r.claim(one, 64)))
	}},
	{name: "while all lanes are held no hint tells of a lane", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		r.schedule(r.entry("m4", to("b"), delay(time.Hour)))
		c := r.claim(one, 1)
		r.holdAll()
		hints := func(h []Hint, err error) {
			require.NoError(r, err)
			require.NotEmpty(r, h)
			for _, hint := range h {
				require.Equal(r, -1, hint.Weight)
				require.Equal(r, start.Add(time.Hour), hint.Due)
			}
		}
		hints(r.Queue.Move(r.ctx, one, r.all()))
		_, h, err := r.Queue.Settle(r.ctx, one, []dispatcher.Settlement{handBack(c[0])})
		hints(h, err)
		_, h, err = r.Queue.Schedule(r.ctx, one, 512, 64, []dispatcher.Entry{r.entry("m5", to("c"))})
		hints(h, err)
		_, h, err = r.Queue.Claim(r.ctx, one, r.all(), 64, 512)
		hints(h, err)
		_, h, err = r.Queue.Cancel(r.ctx, one, ids("a", "m2"))
		hints(h, err)
		_, h, err = r.resend(r.ctx, one, ids("a", "m2"))
		hints(h, err)
		_, h, err = r.Queue.Reap(r.ctx, two, "nobody")
		hints(h, err)
		_, h, err = r.Queue.Limit(r.ctx, one, "a", dispatcher.LaneLimits{MaxInFlight: 1}, false)
		hints(h, err)
	}},
	{name: "a paused lane stays paused when all lanes are resumed", run: func(r *rig) {
		r.publish("a", "m1")
		r.publish("b", "m2")
		r.holdAll()
		r.limit("a", held(dispatcher.HeldPaused))
		r.resume(dispatcher.AllLanes)
		r.mustClaim(one, named("b", "m2"))
		r.mustClaimNothing(one)
	}},
	{name: "the limits of all lanes count only for the hold", run: func(r *rig) {
		r.publishMany("a", 3)
		r.limitAs(dispatcher.AllLanes, dispatcher.LaneLimits{MaxInFlight: 1, Ordered: true, Interval: time.Hour}, true)
		require.False(r, r.State().AllHeld)
		require.Len(r, r.claim(one, 64), 2)
		r.limitAs(dispatcher.AllLanes, dispatcher.LaneLimits{MaxInFlight: 1, Held: dispatcher.HeldPaused}, false)
		require.True(r, r.State().AllHeld)
		r.mustChangeNothing(func() { r.holdAll() })
	}},
	{name: "lanes keep their places and turns while all are held", run: func(r *rig) {
		r.publishMany("a", 3)
		r.pass(time.Second)
		r.publishMany("b", 3)
		before := r.State()
		r.holdAll()
		r.pass(time.Second)
		require.Equal(r, before.Lanes, r.State().Lanes)
		r.resume(dispatcher.AllLanes)
		require.Equal(r, before.Lanes, r.State().Lanes)
	}},
}

func (r *rig) holdAll() {
	r.Helper()
	r.limitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
	require.True(r, r.State().AllHeld)
}
