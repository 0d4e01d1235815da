package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// heldBackCases are about the lanes that stats tells, and the deliveries that
// wait in them for a reason. Only a delivery that may be attempted is late.
var heldBackCases = []testCase{
	{name: "each lane is counted once, by its state", setup: Setup{Partitions: 4, Breaker: 1, BreakerWait: time.Minute}, run: func(r *rig) {
		r.publish("good", "m1")
		r.publish("open", "m2")
		r.publish("asked", "m3")
		for _, c := range r.claim(one, 64) {
			switch c.ID.Lane {
			case "open":
				r.settle(one, blamed(failure(c, time.Hour)))
			case "asked":
				r.settle(one, paused(c, time.Hour, time.Minute))
			default:
				r.settle(one, success(c))
			}
		}
		r.limit(epOne, every(time.Hour))
		r.publish(epOne, "m4")
		r.mustClaim(one, named(epOne, "m4"))
		r.limit(epTwo, held(dispatcher.HeldDisabled))
		r.limit("ep_paused", held(dispatcher.HeldPaused))
		r.limit("ep_idle")
		want := map[dispatcher.EndpointState]int64{
			dispatcher.StateActive: 2, dispatcher.StateOpen: 1, dispatcher.StateLimited: 2, dispatcher.StatePaused: 1, dispatcher.StateDisabled: 1,
		}
		require.Equal(r, want, r.stats().LanesBy)
		r.limitAs("open", dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
		want[dispatcher.StateOpen], want[dispatcher.StatePaused] = 0, 2
		require.Equal(r, want, r.stats().LanesBy, "a pause comes before the breaker")
		r.limitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
		require.Equal(r, map[dispatcher.EndpointState]int64{
			dispatcher.StateActive: 0, dispatcher.StateOpen: 0, dispatcher.StateLimited: 0, dispatcher.StatePaused: 6, dispatcher.StateDisabled: 1,
		}, r.stats().LanesBy)
		r.limitAs(dispatcher.AllLanes, dispatcher.LaneLimits{}, false)
		require.Equal(r, want, r.stats().LanesBy)
	}},
	{name: "deliveries of a paused lane are held, and not late", run: func(r *rig) {
		r.limitAs("a", dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
		r.publish("a", "m1", "m2")
		r.schedule(r.entry("m3", to("a"), delay(time.Hour)))
		r.pass(time.Minute)
		r.publish("b", "m4")
		r.mustHold(dispatcher.WhyPaused, 2)
		require.Equal(r, r.now, r.stats().OldestDue, "of the other lane's")
		r.mustClaim(one, named("b", "m4"))
		require.Zero(r, r.stats().OldestDue)
		r.resume("a")
		r.mustHold(dispatcher.WhyPaused, 0)
		require.Equal(r, start, r.stats().OldestDue)
		r.limitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
		r.mustHold(dispatcher.WhyPaused, 2)
		require.Zero(r, r.stats().OldestDue)
	}},
	{name: "deliveries of an open lane are held until its breaker closes", setup: Setup{Breaker: 1, BreakerWait: time.Minute}, run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		r.settle(one, blamed(failure(r.mustClaim(one, named("a", "m1"))[0], 0)))
		r.move()
		r.mustHold(dispatcher.WhyBreaker, 3)
		require.Zero(r, r.stats().OldestDue)
		r.pass(time.Minute)
		r.move()
		r.mustHold(dispatcher.WhyBreaker, 3)
		require.Zero(r, r.stats().OldestDue, "a probe goes before the others")
		r.mustSettle(one, success(r.mustClaim(one, named("a", "m2"))[0]))
		r.mustHold(dispatcher.WhyBreaker, 0)
		require.Equal(r, start, r.stats().OldestDue)
	}},
	{name: "deliveries are held until the time that their receiver asked for", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		r.mustSettle(one, paused(r.mustClaim(one, named("a", "m1"))[0], time.Hour, time.Minute))
		r.mustHold(dispatcher.WhyRetryAfter, 1)
		require.Zero(r, r.stats().OldestDue)
		r.pass(time.Minute)
		r.mustHold(dispatcher.WhyRetryAfter, 0)
		require.Equal(r, start, r.stats().OldestDue, "now it may be attempted")
	}},
	{name: "deliveries of a rated lane are held as long as the rate is in use", run: func(r *rig) {
		r.limit(epOne, every(time.Minute))
		r.publish(epOne, "m1", "m2", "m3")
		require.Equal(r, start, r.stats().OldestDue, "nothing was attempted yet")
		r.mustSettle(one, success(r.mustClaim(one, named(epOne, "m1"))[0]))
		r.mustHold(dispatcher.WhyRate, 2)
		require.Zero(r, r.stats().OldestDue)
		r.pass(time.Minute)
		r.mustHold(dispatcher.WhyRate, 2)
		require.Zero(r, r.stats().OldestDue, "it has its turn")
		r.pass(time.Minute + time.Second)
		r.mustHold(dispatcher.WhyRate, 0)
		require.Equal(r, start, r.stats().OldestDue, "nobody comes for it")
	}},
	{name: "a delivery behind another of its key is held by order", setup: Setup{Partitions: 4}, run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2", "m3")
		r.publishKeyed("b", "k", "n1", "n2")
		r.schedule(r.entry("m4", to("a"), delay(time.Hour)))
		r.mustHold(dispatcher.WhyOrder, 3)
		r.mustSettle(one, success(r.mustClaimIn("a", "m1")))
		r.mustHold(dispatcher.WhyOrder, 2)
	}},
	{name: "a delivery that waits for a permit, or for a fault of ours, is late", run: func(r *rig) {
		r.limit(epOne, most(1))
		r.publish(epOne, "m1", "m2")
		r.mustClaim(one, named(epOne, "m1"))
		require.Equal(r, start, r.stats().OldestDue)
		r.publish("a", "n1", "n2")
		s := handBack(r.mustClaimIn("a", "n1"))
		s.Pause, s.Stalled = time.Hour, dispatcher.WhySealed
		r.mustSettle(one, s)
		require.Equal(r, start, r.stats().OldestDue)
		r.mustHold("", 0)
	}},
	{name: "deliveries of a disabled endpoint end, and are neither held nor late", run: func(r *rig) {
		r.limit(epOne)
		r.publish(epOne, "m1")
		r.limit(epOne, held(dispatcher.HeldDisabled))
		require.Zero(r, r.stats().OldestDue)
		r.mustHold("", 0)
	}},
}

// mustHold fails the case unless n deliveries are held for this reason, and
// none for another.
func (r *rig) mustHold(why dispatcher.LaneWhy, n int64) {
	r.Helper()
	got := r.stats().Held
	want := map[dispatcher.LaneWhy]int64{
		dispatcher.WhyPaused: 0, dispatcher.WhyBreaker: 0, dispatcher.WhyRetryAfter: 0, dispatcher.WhyRate: 0, dispatcher.WhyOrder: 0,
	}
	if why != "" {
		want[why] = n
	}
	require.Equal(r, want, got)
}
