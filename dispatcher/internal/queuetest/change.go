package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

var cancelCases = []testCase{
	{name: "what is scheduled is cancelled at once", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Minute)))
		r.pass(time.Second)
		require.Equal(r, []bool{true}, r.cancel(named("a", "m1")))
		d := r.mustStand(named("a", "m1"), dispatcher.StatusCancelled)
		require.Equal(r, r.now, d.Ended)
		require.Zero(r, d.Due)
		r.pass(time.Hour)
		r.move()
		r.mustClaimNothing(one)
	}},
	{name: "what waits for its rung is cancelled at once and keeps its history", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], time.Minute))
		require.Equal(r, []bool{true}, r.cancel(named("a", "m1")))
		d := r.mustStand(named("a", "m1"), dispatcher.StatusCancelled)
		require.Equal(r, 1, d.Attempts)
		require.Len(r, d.History, 1)
	}},
	{name: "what is ready is never claimed again", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		require.Equal(r, []bool{true}, r.cancel(named("a", "m1")))
		r.mustStand(named("a", "m1"), dispatcher.StatusCancelled)
		r.pass(time.Second)
		got, hints, err := r.Queue.Claim(r.ctx, one, r.all(), 64, 512)
		require.NoError(r, err)
		require.Equal(r, ids("a", "m2"), claimedIDs(got))
		require.Equal(r, 1, hints[0].Ended)
		d := r.mustStand(named("a", "m1"), dispatcher.StatusCancelled)
		require.Equal(r, r.now, d.Ended)
		require.Equal(r, int64(1), r.stats().Counts[dispatcher.StatusCancelled])
	}},
	{name: "a whole lane that is cancelled can be claimed empty", run: func(r *rig) {
		var all []dispatcher.DeliveryID
		for range 20 {
			id := r.newID()
			r.publish("a", id)
			all = append(all, named("a", id))
		}
		r.cancel(all...)
		for range 20 {
			require.Empty(r, r.claim(one, 64))
		}
		require.Equal(r, int64(20), r.stats().Counts[dispatcher.StatusCancelled])
		require.Empty(r, r.State().Marks)
	}},
	{name: "a success of what was in flight wins over the cancel", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		require.Equal(r, []bool{true}, r.cancel(c.ID))
		r.mustStand(c.ID, dispatcher.StatusCancelled)
		r.mustSettle(one, success(c))
		r.mustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{name: "anything else of what was in flight ends it as cancelled", run: func(r *rig) {
		outcomes := map[string]func(dispatcher.Claimed) dispatcher.Settlement{
			"m1": func(c dispatcher.Claimed) dispatcher.Settlement { return failure(c, 0) },
			"m2": func(c dispatcher.Claimed) dispatcher.Settlement { return silence(c, 0) },
			"m3": func(c dispatcher.Claimed) dispatcher.Settlement { return death(c, dispatcher.ReasonGone) },
			"m4": handBack,
		}
		for _, id := range sortedKeys(outcomes) {
			r.publish("a", id)
			c := r.mustClaim(one, named("a", id))[0]
			r.cancel(c.ID)
			r.pass(time.Second)
			require.Equal(r, []dispatcher.Settled{dispatcher.SettledEnd}, r.settle(one, outcomes[id](c)))
			d := r.mustStand(c.ID, dispatcher.StatusCancelled)
			require.Equal(r, r.now, d.Ended)
			require.Empty(r, d.Reason)
			made := 1
			if id == "m4" {
				made = 0
			}
			require.Equal(r, made, d.Attempts, id)
			require.Len(r, d.History, made, id)
		}
		r.pass(time.Hour)
		r.move()
		r.mustClaimNothing(one)
	}},
	{name: "what has ended stays as it is", run: func(r *rig) {
		r.succeed("a")
		r.mustSettle(one, death(r.takeNew("a"), dispatcher.ReasonGone))
		r.schedule(r.entry("m3", to("a"), delay(time.Hour)))
		r.cancel(named("a", "m3"))
		r.mustChangeNothing(func() {
			require.Equal(r, []bool{false, false, false},
				r.cancel(named("a", "n00001"), named("a", "n00002"), named("a", "m3")))
		})
	}},
	{name: "a second cancel of what is ready or in flight changes nothing", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustClaim(one, named("a", "m1"))
		r.publish("a", "m2")
		require.Equal(r, []bool{true, true}, r.cancel(named("a", "m1"), named("a", "m2")))
		r.mustChangeNothing(func() {
			require.Equal(r, []bool{false, false}, r.cancel(named("a", "m1"), named("a", "m2")))
		})
	}},
	{name: "one given twice in a call is cancelled once", run: func(r *rig) {
		r.publish("a", "m1")
		r.schedule(r.entry("m2", to("a"), delay(time.Hour)))
		require.Equal(r, []bool{true, false, true, false},
			r.cancel(named("a", "m1"), named("a", "m1"), named("a", "m2"), named("a", "m2")))
	}},
	{name: "a cancel does not take back a late success", run: func(r *rig) {
		c := r.takeOver("a", "m1")
		r.settle(one, success(c))
		require.Equal(r, []bool{false}, r.cancel(c.ID))
		r.mustStand(c.ID, dispatcher.StatusDelivered)
		r.mustClaimNothing(two)
		r.mustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{name: "what nobody knows is not found, and nothing is written", run: func(r *rig) {
		r.mustNotFind(r.Queue.Cancel)
	}},
	{name: "cancelling nothing does nothing", run: func(r *rig) {
		r.mustChangeNothing(func() { require.Empty(r, r.cancel()) })
	}},
	{name: "one lane of a fan-out can be cancelled alone", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a", "b"), delay(time.Minute)))
		r.cancel(named("a", "m1"))
		r.mustStand(named("a", "m1"), dispatcher.StatusCancelled)
		r.mustStand(named("b", "m1"), dispatcher.StatusScheduled)
	}},
}

var retryCases = []testCase{
	{name: "what is scheduled is ready at once", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		r.pass(time.Second)
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		r.mustStand(named("a", "m1"), dispatcher.StatusReady)
		c := r.mustClaim(one, named("a", "m1"))[0]
		require.Equal(r, 1, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		require.Equal(r, r.now, c.Due)
	}},
	{name: "what waits for its rung keeps it, and is attempted beside it", run: func(r *rig) {
		r.publish("a", "m1")
		for range 2 {
			r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], time.Minute))
			r.pass(time.Minute)
			r.move()
		}
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], time.Minute))
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		c := r.mustClaim(one, named("a", "m1"))[0]
		require.Equal(r, 4, c.Attempt)
		require.Equal(r, 4, c.Rung)
		require.True(r, c.Asked)
		require.False(r, c.First)
		r.mustSettle(one, failure(c, time.Minute))
		r.pass(time.Minute)
		r.move()
		c = r.mustClaim(one, named("a", "m1"))[0]
		require.Equal(r, 5, c.Attempt)
		require.Equal(r, 4, c.Rung)
		require.False(r, c.Asked, "that was asked for once")
	}},
	{name: "what has ended starts a new ladder, and attempts go on counting", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], 0))
		r.move()
		r.mustSettle(one, death(r.mustClaim(one, named("a", "m1"))[0], dispatcher.ReasonExhausted))
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		require.Empty(r, r.stats().Dead)

		c := r.mustClaim(one, named("a", "m1"))[0]
		require.Equal(r, 3, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		r.mustSettle(one, failure(c, time.Minute))
		r.mustStand(named("a", "m1"), dispatcher.StatusRetrying)
		r.cancel(named("a", "m1"))

		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		c = r.mustClaim(one, named("a", "m1"))[0]
		require.Equal(r, 4, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		r.mustSettle(one, success(c))

		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		c = r.mustClaim(one, named("a", "m1"))[0]
		require.Equal(r, 5, c.Attempt)
		require.Equal(r, 1, c.Rung)
		r.mustSettle(one, success(c))
		d := r.mustStand(named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, 5, d.Attempts)
		require.Len(r, d.History, 5)
	}},
	{name: "one delivered at the first attempt can be sent again", run: func(r *rig) {
		r.succeed("a")
		require.Equal(r, []bool{true}, r.retry(named("a", "n00001")))
		r.mustStand(named("a", "n00001"), dispatcher.StatusReady)
		c := r.mustClaim(one, named("a", "n00001"))[0]
		require.Equal(r, 2, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		r.mustSettle(one, success(c))
		require.Equal(r, 2, r.look(c.ID).Attempts)
	}},
	{name: "one that was cancelled before its first attempt starts at its first", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		r.cancel(named("a", "m1"))
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		c := r.mustClaim(one, named("a", "m1"))[0]
		require.Equal(r, 1, c.Attempt)
		require.Equal(r, 1, c.Rung)
	}},
	{name: "what is in flight is left alone", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(two, named("a", "m1"))[0]
		r.mustChangeNothing(func() {
			got := r.change(r.resend, c.ID)
			require.False(r, got[0].Changed)
			require.ErrorIs(r, got[0].Err, dispatcher.ErrInFlight)
		})
		r.mustSettle(two, success(c))
	}},
	{name: "what is ready stays where it is", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		r.mustChangeNothing(func() { require.Equal(r, []bool{false}, r.retry(named("a", "m1"))) })
	}},
	{name: "a retry takes a cancel of what is ready back", run: func(r *rig) {
		r.publish("a", "m1")
		r.cancel(named("a", "m1"))
		require.Equal(r, []bool{true}, r.retry(named("a", "m1")))
		r.mustStand(named("a", "m1"), dispatcher.StatusReady)
		r.mustClaim(one, named("a", "m1"))
	}},
	{name: "a retry takes a cancel of what is in flight back", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.cancel(c.ID)
		r.change(r.resend, c.ID)
		r.mustStand(c.ID, dispatcher.StatusInFlight)
		r.mustSettle(one, failure(c, time.Minute))
		r.mustStand(c.ID, dispatcher.StatusRetrying)
	}},
	{name: "a retry does not undo a late success", run: func(r *rig) {
		c := r.takeOver("a", "m1")
		r.settle(one, success(c))
		r.mustChangeNothing(func() { require.False(r, r.change(r.resend, c.ID)[0].Changed) })
		r.mustClaimNothing(two)
		r.mustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{name: "what nobody knows is not found, and nothing is written", run: func(r *rig) {
		r.mustNotFind(r.resend)
	}},
	{name: "one given twice in a call is made ready once", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		require.Equal(r, []bool{true, false}, r.retry(named("a", "m1"), named("a", "m1")))
		require.Equal(r, ids("a", "m1"), r.State().Ready["a"])
	}},
	{name: "several go to the end of their lanes in the order given", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)), r.entry("m2", to("a"), delay(2*time.Hour)))
		r.publish("a", "m3")
		r.retry(named("a", "m2"), named("a", "m1"))
		require.Equal(r, ids("a", "m3", "m2", "m1"), r.State().Ready["a"])
	}},
	{name: "retrying nothing does nothing", run: func(r *rig) {
		r.mustChangeNothing(func() { require.Empty(r, r.retry()) })
	}},
}

// mustNotFind asks for changes of deliveries that were never made, and of one
// that is gone.
func (r *rig) mustNotFind(f changeFunc) {
	r.Helper()
	r.schedule(r.entry("m1", to("a", "b")))
	for _, c := range r.claim(one, 2) {
		if c.ID.Lane == "a" {
			r.mustSettle(one, success(c))
		}
	}
	r.trim(keepNothing)
	r.succeed("c")
	cut := named("c", "n00001")
	r.trim(keepDigests)
	r.mustChangeNothing(func() {
		for _, c := range r.change(f, named("z", "never"), named("z", "m1"), named("a", "m1"), cut) {
			require.False(r, c.Changed, "%s", c.ID)
			require.ErrorIs(r, c.Err, dispatcher.ErrNotFound, "%s", c.ID)
		}
	})
}
