package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// besideCases are about attempts that a person asks for while a delivery waits
// for its time. Such an attempt does not count on the ladder.
var besideCases = []testCase{
	{name: "a failed attempt uses no rung, and the delivery keeps its due time", run: func(r *rig) {
		due := r.waitFor(30 * time.Second)
		r.pass(10 * time.Second)
		c := r.askFor(named("a", "m1"))
		require.Equal(r, 2, c.Attempt)
		require.Equal(r, 2, c.Rung)
		require.Equal(r, due, c.WaitsOn)
		r.pass(time.Second)
		r.mustSettle(one, failure(c, 30*time.Second))
		d := r.mustStand(c.ID, dispatcher.StatusRetrying)
		require.Equal(r, due, d.Due)
		require.Equal(r, 2, d.Attempts)
		require.Equal(r, due, d.History[1].Next)

		r.pass(19 * time.Second)
		r.move()
		c = r.mustClaim(one, c.ID)[0]
		require.Equal(r, 3, c.Attempt)
		require.Equal(r, 2, c.Rung, "the rung is still the one it waited on")
		require.False(r, c.Asked)
		require.Zero(r, c.WaitsOn)
	}},
	{name: "three failed attempts use no rung", run: func(r *rig) {
		due := r.waitFor(time.Minute)
		for n := range 3 {
			c := r.askFor(named("a", "m1"))
			require.Equal(r, 2, c.Rung)
			require.Equal(r, due, c.WaitsOn)
			r.mustSettle(one, failure(c, time.Minute))
			require.Equal(r, n+1, r.State().Progress[c.ID].Beside)
		}
		require.Equal(r, due, r.mustStand(named("a", "m1"), dispatcher.StatusRetrying).Due)
	}},
	{name: "an attempt before the first one leaves the delivery scheduled", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		due := r.now.Add(time.Hour)
		c := r.askFor(named("a", "m1"))
		require.Equal(r, 1, c.Rung)
		require.Equal(r, due, c.WaitsOn)
		r.mustSettle(one, failure(c, 0))
		d := r.mustStand(c.ID, dispatcher.StatusScheduled)
		require.Equal(r, due, d.Due)
		require.Equal(r, "due", d.WaitingFor)
		r.pass(time.Hour)
		r.move()
		c = r.mustClaim(one, c.ID)[0]
		require.Equal(r, 2, c.Attempt)
		require.Equal(r, 1, c.Rung)
	}},
	{name: "a delivery whose due time has passed meanwhile waits its rung again", run: func(r *rig) {
		r.waitFor(30 * time.Second)
		c := r.askFor(named("a", "m1"))
		r.pass(40 * time.Second)
		r.mustSettle(one, failure(c, 30*time.Second))
		require.Equal(r, r.now.Add(30*time.Second), r.look(c.ID).Due)
	}},
	{name: "a receiver that asks for more time than is left gets it", run: func(r *rig) {
		due := r.waitFor(30 * time.Second)
		r.mustSettle(one, paused(r.askFor(named("a", "m1")), 30*time.Second, time.Second))
		require.Equal(r, due, r.look(named("a", "m1")).Due)
		r.pass(time.Second) // the lane's pause is over
		r.mustSettle(one, paused(r.askFor(named("a", "m1")), 30*time.Second, time.Minute))
		require.Equal(r, r.now.Add(time.Minute), r.look(named("a", "m1")).Due)
	}},
	{name: "asking again while it is ready or in flight changes nothing", run: func(r *rig) {
		due := r.waitFor(time.Minute)
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		r.pass(time.Second)
		r.mustChangeNothing(func() { require.Equal(r, []bool{false}, r.retry(named("a", "m1"))) })
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.mustChangeNothing(func() { require.ErrorIs(r, r.change(r.resend, c.ID)[0].Err, dispatcher.ErrInFlight) })
		r.mustSettle(one, failure(c, time.Minute))
		require.Equal(r, due, r.look(c.ID).Due)
	}},
	{name: "it survives its holder's death and is due at once", run: func(r *rig) {
		due := r.waitFor(time.Hour)
		r.askFor(named("a", "m1"))
		r.reap(one)
		c := r.mustClaim(two, named("a", "m1"))[0]
		require.True(r, c.Asked)
		require.Equal(r, 2, c.Rung)
		require.Equal(r, due, c.WaitsOn)
		require.Equal(r, 1, r.State().Progress[c.ID].Deaths)
	}},
	{name: "it survives being handed back", run: func(r *rig) {
		due := r.waitFor(time.Hour)
		r.mustSettle(one, handBack(r.askFor(named("a", "m1"))))
		require.Equal(r, due, r.mustClaim(two, named("a", "m1"))[0].WaitsOn)
	}},
	{name: "an outcome that is repeated because its answer was lost counts once", run: func(r *rig) {
		due := r.waitFor(time.Hour)
		c := r.askFor(named("a", "m1"))
		r.mustSettle(one, failure(c, time.Minute))
		r.mustChangeNothing(func() {
			require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, failure(c, time.Minute)))
		})
		again := r.askFor(named("a", "m1"))
		r.mustChangeNothing(func() {
			require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, failure(c, time.Minute)))
		})
		r.mustSettle(one, failure(again, time.Minute))
		require.Equal(r, Progress{Attempts: 3, Beside: 2, Status: 500}, r.State().Progress[c.ID])
		require.Equal(r, due, r.look(c.ID).Due)
	}},
	{name: "a late success ends the delivery that waits", run: func(r *rig) {
		r.waitFor(time.Hour)
		c := r.askFor(named("a", "m1"))
		r.reap(one)
		r.mustSettle(two, failure(r.mustClaim(two, c.ID)[0], time.Minute))
		r.mustLie(PlaceDue, "a", "m1")
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledDone}, r.settle(one, success(c)))
		r.mustLie(PlaceDone, "a", "m1")
	}},
	{name: "a cancel that is taken back does not change it", run: func(r *rig) {
		due := r.waitFor(time.Hour)
		c := r.askFor(named("a", "m1"))
		r.cancel(c.ID)
		r.change(r.resend, c.ID)
		r.mustSettle(one, failure(c, time.Minute))
		require.Equal(r, due, r.mustStand(c.ID, dispatcher.StatusRetrying).Due)
	}},
	{name: "a delivery that would wait past its expiry dies", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), expires(r.now.Add(time.Minute))))
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], 50*time.Second))
		c := r.askFor(named("a", "m1"))
		r.pass(50 * time.Second)
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledEnd}, r.settle(one, failure(c, 50*time.Second)))
		d := r.mustStand(c.ID, dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Equal(r, 2, d.Attempts)
		require.Len(r, d.History, 2)
	}},
	{name: "a delivery that died of it starts a new ladder and counts no such attempt", run: func(r *rig) {
		r.waitFor(time.Hour)
		r.mustSettle(one, failure(r.askFor(named("a", "m1")), time.Minute))
		r.mustSettle(one, death(r.askFor(named("a", "m1")), dispatcher.ReasonGone))
		c := r.askFor(named("a", "m1"))
		require.Equal(r, 4, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.Zero(r, c.WaitsOn, "its failure takes the first rung")
		r.mustSettle(one, failure(c, time.Minute))
		require.Equal(r, r.now.Add(time.Minute), r.mustStand(c.ID, dispatcher.StatusRetrying).Due)
	}},
	{name: "the first of a line stays first", run: func(r *rig) {
		r.publishKeyed("a", "k", "m1", "m2")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], time.Hour))
		r.mustSettle(one, failure(r.askFor(named("a", "m1")), time.Hour))
		r.mustLie(PlaceDue, "a", "m1")
		r.mustLie(PlaceBehind, "a", "m2")
		r.mustClaimNothing(one)
	}},
}

// waitFor lets the first attempt of m1 to lane a fail. It answers when the next
// one is due.
func (r *rig) waitFor(wait time.Duration) time.Time {
	r.Helper()
	r.publish("a", "m1")
	r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], wait))
	return r.now.Add(wait)
}

// askFor asks for an attempt of a delivery and claims it.
func (r *rig) askFor(id dispatcher.DeliveryID) dispatcher.Claimed {
	r.Helper()
	require.Equal(r, []bool{true}, r.retry(id))
	c := r.mustClaim(one, id)[0]
	require.True(r, c.Asked)
	return c
}
