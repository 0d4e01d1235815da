package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// resentCases are about deliveries that a retry leaves as they are, and about
// resends of delivered ones.
var resentCases = []testCase{
	{name: "a delivered one is left, unless the retry asks for those too", run: func(r *rig) {
		r.succeed("a")
		r.mustChangeNothing(func() { r.mustRefuse(dispatcher.ErrDelivered, named("a", "n00001")) })
		require.Equal(r, []bool{true}, r.retry(named("a", "n00001")))
	}},
	{name: "a delivery that is marked delivered is left too", run: func(r *rig) {
		c := r.takeOver("a", "m1")
		r.settle(one, success(c))
		r.mustChangeNothing(func() { r.mustRefuse(dispatcher.ErrDelivered, c.ID) })
	}},
	{name: "what was delivered to an endpoint that is disabled since is delivered", run: func(r *rig) {
		r.limit(epOne)
		r.succeed(epOne)
		r.limit(epOne, held(dispatcher.HeldDisabled))
		r.mustRefuse(dispatcher.ErrDelivered, named(epOne, "n00001"))
		require.ErrorIs(r, r.change(r.resend, named(epOne, "n00001"))[0].Err, dispatcher.ErrDisabled)
	}},
	{name: "a resend that dies keeps the first success", run: func(r *rig) {
		r.succeed("a")
		at := r.now
		id := named("a", "n00001")
		r.pass(time.Minute)
		r.mustSettle(one, death(r.askFor(id), dispatcher.ReasonGone))
		d := r.mustStand(id, dispatcher.StatusDead)
		require.Equal(r, at, d.Delivered)
		require.Equal(r, r.now, d.Ended)
		require.Len(r, d.History, 2)
		require.Equal(r, dispatcher.Attempt{Number: 1, At: at, Status: 200, Verdict: dispatcher.Delivered}, d.History[0])
	}},
	{name: "a success after several attempts is told with its own number", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], 0))
		r.move()
		r.mustSettle(one, success(r.mustClaim(one, named("a", "m1"))[0]))
		at := r.now
		r.pass(time.Minute)
		r.mustSettle(one, failure(r.askFor(named("a", "m1")), time.Hour))
		d := r.mustStand(named("a", "m1"), dispatcher.StatusRetrying)
		require.Equal(r, at, d.Delivered)
		require.Len(r, d.History, 3)
		require.Equal(r, dispatcher.Delivered, d.History[1].Verdict)
	}},
	{name: "a first success with another status than 200 is told with it", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustSettle(one, answered(r.mustClaim(one, named("a", "m1"))[0], dispatcher.Delivered, 204))
		r.mustSettle(one, failure(r.askFor(named("a", "m1")), time.Hour))
		require.Equal(r, 204, r.look(named("a", "m1")).History[0].Status)
	}},
	{name: "a resend that succeeds does not change when it was delivered", run: func(r *rig) {
		r.succeed("a")
		at := r.now
		id := named("a", "n00001")
		for range 2 {
			r.pass(time.Minute)
			r.mustSettle(one, success(r.askFor(id)))
		}
		d := r.mustStand(id, dispatcher.StatusDelivered)
		require.Equal(r, at, d.Delivered)
		require.Equal(r, r.now, d.Ended)
		require.Len(r, d.History, 3)
	}},
	{name: "a success outlives any number of failures after it", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], 0))
		r.move()
		r.mustSettle(one, success(r.mustClaim(one, named("a", "m1"))[0]))
		for range 40 {
			r.mustSettle(one, failure(r.askFor(named("a", "m1")), time.Hour))
		}
		d := r.look(named("a", "m1"))
		require.Len(r, d.History, 32)
		require.Equal(r, dispatcher.Delivered, d.History[0].Verdict)
		require.Equal(r, 2, d.History[0].Number)
		require.Equal(r, 42, d.History[31].Number)
	}},
	{name: "an expired delivery is left, wherever it is", run: func(r *rig) {
		soon := expires(r.now.Add(time.Minute))
		r.schedule(r.entry("waits", to("a"), delay(time.Hour), soon), r.entry("ended", to("a"), delay(time.Hour), soon))
		r.cancel(named("a", "ended"))
		r.schedule(r.entry("ready", to("a"), soon), r.entry("marked", to("a"), soon))
		r.cancel(named("a", "marked"))
		r.schedule(r.entry("first", to("b"), keyed("k"), delay(time.Hour)), r.entry("behind", to("b"), keyed("k"), soon))
		r.pass(time.Minute)
		r.mustChangeNothing(func() {
			r.mustRefuse(dispatcher.ErrExpired, ids("a", "waits", "ended", "ready", "marked")...)
			r.mustRefuse(dispatcher.ErrExpired, named("b", "behind"))
		})
	}},
	{name: "a cancel of what is in flight is taken back, though it expired meanwhile", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), expires(r.now.Add(time.Minute))))
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.cancel(c.ID)
		r.pass(time.Minute)
		r.change(r.spare, c.ID)
		r.mustStand(c.ID, dispatcher.StatusInFlight)
		r.mustSettle(one, success(c))
	}},
	{name: "a delivery behind another of its key is left, and the first one is not", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), keyed("k"), delay(time.Hour)), r.entry("m2", to("a"), keyed("k")))
		r.mustChangeNothing(func() { r.mustRefuse(dispatcher.ErrOrder, named("a", "m2")) })
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		r.mustClaim(one, named("a", "m1"))
		r.mustRefuse(dispatcher.ErrOrder, named("a", "m2"))
	}},
}

// mustRefuse asks for attempts, which must all be refused for one reason.
func (r *rig) mustRefuse(why error, ids ...dispatcher.DeliveryID) {
	r.Helper()
	for _, c := range r.change(r.spare, ids...) {
		require.False(r, c.Changed, "%s", c.ID)
		require.ErrorIs(r, c.Err, why, "%s", c.ID)
	}
}
