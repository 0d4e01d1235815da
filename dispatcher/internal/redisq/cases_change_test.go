package redisq_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// CancelCases are about cancelling deliveries.
var CancelCases = []redisqtest.Case{
	{Name: "a scheduled delivery is cancelled at once", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Minute)))
		r.Pass(time.Second)
		require.Equal(r, []bool{true}, r.Cancel(redisqtest.Named("a", "m1")))
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusCancelled)
		require.Equal(r, r.Now, d.Ended)
		require.Zero(r, d.Due)
		r.Pass(time.Hour)
		r.Move()
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a delivery that waits for a retry is cancelled at once and keeps its history", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], time.Minute))
		require.Equal(r, []bool{true}, r.Cancel(redisqtest.Named("a", "m1")))
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusCancelled)
		require.Equal(r, 1, d.Attempts)
		require.Len(r, d.History, 1)
	}},
	{Name: "a cancelled ready delivery is never claimed again", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		require.Equal(r, []bool{true}, r.Cancel(redisqtest.Named("a", "m1")))
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusCancelled)
		r.Pass(time.Second)
		got, hints, err := r.Queue.Claim(r.Ctx, redisqtest.One, r.All(), 64, 512)
		require.NoError(r, err)
		require.Equal(r, redisqtest.IDs("a", "m2"), redisqtest.ClaimedIDs(got))
		require.Zero(r, hints[0].Ended)
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusCancelled)
		require.Equal(r, r.Now.Add(-time.Second), d.Ended, "it ended when it was cancelled")
		require.Equal(r, int64(1), r.Stats().Counts[dispatcher.StatusCancelled])
	}},
	{Name: "a claim empties a lane whose deliveries are all cancelled", Run: func(r *redisqtest.Rig) {
		var all []dispatcher.DeliveryID
		for range 20 {
			id := r.NewID()
			r.Publish("a", id)
			all = append(all, redisqtest.Named("a", id))
		}
		r.Cancel(all...)
		for range 20 {
			require.Empty(r, r.Claim(redisqtest.One, 64))
		}
		require.Equal(r, int64(20), r.Stats().Counts[dispatcher.StatusCancelled])
		require.Empty(r, r.State().Marks)
	}},
	{Name: "a success of a delivery in flight wins over its cancel", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		require.Equal(r, []bool{true}, r.Cancel(c.ID))
		r.MustStand(c.ID, dispatcher.StatusCancelled)
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "any other outcome of a delivery in flight ends it as cancelled", Run: func(r *redisqtest.Rig) {
		outcomes := map[string]func(dispatcher.Claimed) dispatcher.Settlement{
			"m1": func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Failure(c, 0) },
			"m2": func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Silence(c, 0) },
			"m3": func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Death(c, dispatcher.ReasonGone) },
			"m4": redisqtest.HandBack,
		}
		for _, id := range redisqtest.SortedKeys(outcomes) {
			r.Publish("a", id)
			c := r.MustClaim(redisqtest.One, redisqtest.Named("a", id))[0]
			r.Cancel(c.ID)
			r.Pass(time.Second)
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.One, outcomes[id](c)))
			d := r.MustStand(c.ID, dispatcher.StatusCancelled)
			require.Equal(r, r.Now, d.Ended)
			require.Empty(r, d.Reason)
			made := 1
			if id == "m4" {
				made = 0
			}
			require.Equal(r, made, d.Attempts, id)
			require.Len(r, d.History, made, id)
		}
		r.Pass(time.Hour)
		r.Move()
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a cancel changes no ended delivery", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		r.MustSettle(redisqtest.One, redisqtest.Death(r.TakeNew("a"), dispatcher.ReasonGone))
		r.Schedule(r.Entry("m3", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.Cancel(redisqtest.Named("a", "m3"))
		r.MustChangeNothing(func() {
			require.Equal(r, []bool{false, false, false},
				r.Cancel(redisqtest.Named("a", "n00001"), redisqtest.Named("a", "n00002"), redisqtest.Named("a", "m3")))
		})
	}},
	{Name: "a second cancel of a ready or in-flight delivery changes nothing", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.Publish("a", "m2")
		require.Equal(r, []bool{true, true}, r.Cancel(redisqtest.Named("a", "m1"), redisqtest.Named("a", "m2")))
		r.MustChangeNothing(func() {
			require.Equal(r, []bool{false, false}, r.Cancel(redisqtest.Named("a", "m1"), redisqtest.Named("a", "m2")))
		})
	}},
	{Name: "a delivery that is named twice in a call is cancelled once", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Schedule(r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		require.Equal(r, []bool{true, false, true, false},
			r.Cancel(redisqtest.Named("a", "m1"), redisqtest.Named("a", "m1"), redisqtest.Named("a", "m2"), redisqtest.Named("a", "m2")))
	}},
	{Name: "a cancel does not undo a late success", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		r.Settle(redisqtest.One, redisqtest.Success(c))
		require.Equal(r, []bool{false}, r.Cancel(c.ID))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
		r.MustClaimNothing(redisqtest.Two)
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "a change of an unknown delivery returns not found and writes nothing", Run: func(r *redisqtest.Rig) {
		mustNotFind(r, r.Queue.Cancel)
	}},
	{Name: "an empty cancel does nothing", Run: func(r *redisqtest.Rig) {
		r.MustChangeNothing(func() { require.Empty(r, r.Cancel()) })
	}},
	{Name: "one lane of a fan-out can be cancelled alone", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a", "b"), redisqtest.Delay(time.Minute)))
		r.Cancel(redisqtest.Named("a", "m1"))
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusCancelled)
		r.MustStand(redisqtest.Named("b", "m1"), dispatcher.StatusScheduled)
	}},
}

// RetryCases are about retries that a person requests.
var RetryCases = []redisqtest.Case{
	{Name: "a retry makes a scheduled delivery ready at once", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.Pass(time.Second)
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		require.Equal(r, 1, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		require.Equal(r, r.Now, c.Due)
	}},
	{Name: "a waiting delivery keeps its rung, and its retry is an extra attempt", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		for range 2 {
			r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], time.Minute))
			r.Pass(time.Minute)
			r.Move()
		}
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], time.Minute))
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		require.Equal(r, 4, c.Attempt)
		require.Equal(r, 4, c.Rung)
		require.True(r, c.Asked)
		require.False(r, c.First)
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
		r.Pass(time.Minute)
		r.Move()
		c = r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		require.Equal(r, 5, c.Attempt)
		require.Equal(r, 4, c.Rung)
		require.False(r, c.Asked, "one request makes one retry")
	}},
	{Name: "a retry of an ended delivery starts a new ladder, and the count of attempts continues", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0))
		r.Move()
		r.MustSettle(redisqtest.One, redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], dispatcher.ReasonExhausted))
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		require.Empty(r, r.Stats().Dead)

		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		require.Equal(r, 3, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusRetrying)
		r.Cancel(redisqtest.Named("a", "m1"))

		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		c = r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		require.Equal(r, 4, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		r.MustSettle(redisqtest.One, redisqtest.Success(c))

		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		c = r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		require.Equal(r, 5, c.Attempt)
		require.Equal(r, 1, c.Rung)
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, 5, d.Attempts)
		require.Len(r, d.History, 5)
	}},
	{Name: "a delivery that was delivered at the first attempt can be sent again", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "n00001")))
		r.MustStand(redisqtest.Named("a", "n00001"), dispatcher.StatusReady)
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "n00001"))[0]
		require.Equal(r, 2, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
		require.Equal(r, 2, r.Inspect(c.ID).Attempts)
	}},
	{Name: "a retry of a delivery that was cancelled before its first attempt starts at the first", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.Cancel(redisqtest.Named("a", "m1"))
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		require.Equal(r, 1, c.Attempt)
		require.Equal(r, 1, c.Rung)
	}},
	{Name: "a retry leaves a delivery in flight alone", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"))[0]
		r.MustChangeNothing(func() {
			got := r.Change(r.Resend, c.ID)
			require.False(r, got[0].Changed)
			require.ErrorIs(r, got[0].Err, dispatcher.ErrInFlight)
		})
		r.MustSettle(redisqtest.Two, redisqtest.Success(c))
	}},
	{Name: "a retry leaves a ready delivery in its place", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.MustChangeNothing(func() { require.Equal(r, []bool{false}, r.Retry(redisqtest.Named("a", "m1"))) })
	}},
	{Name: "a retry undoes a cancel of a ready delivery", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Cancel(redisqtest.Named("a", "m1"))
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
	}},
	{Name: "a retry undoes a cancel of a delivery in flight", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Cancel(c.ID)
		r.Change(r.Resend, c.ID)
		r.MustStand(c.ID, dispatcher.StatusInFlight)
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
		r.MustStand(c.ID, dispatcher.StatusRetrying)
	}},
	{Name: "a retry does not undo a late success of a delivery in flight elsewhere", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		r.MustClaim(redisqtest.Two, c.ID)
		r.Settle(redisqtest.One, redisqtest.Success(c))
		r.MustChangeNothing(func() { require.False(r, r.Change(r.Resend, c.ID)[0].Changed) })
		r.MustClaimNothing(redisqtest.Two)
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "a change of an unknown delivery returns not found and writes nothing", Run: func(r *redisqtest.Rig) {
		mustNotFind(r, r.Resend)
	}},
	{Name: "a retry that names a delivery twice makes it ready once", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		require.Equal(r, []bool{true, false}, r.Retry(redisqtest.Named("a", "m1"), redisqtest.Named("a", "m1")))
		require.Equal(r, redisqtest.IDs("a", "m1"), r.State().Ready["a"])
	}},
	{Name: "a retry of several appends them to their lanes in the order of the call", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)), r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(2*time.Hour)))
		r.Publish("a", "m3")
		r.Retry(redisqtest.Named("a", "m2"), redisqtest.Named("a", "m1"))
		require.Equal(r, redisqtest.IDs("a", "m3", "m2", "m1"), r.State().Ready["a"])
	}},
	{Name: "an empty retry does nothing", Run: func(r *redisqtest.Rig) {
		r.MustChangeNothing(func() { require.Empty(r, r.Retry()) })
	}},
}

// mustNotFind requests changes of deliveries that were never made, and of one
// that was deleted.
func mustNotFind(r *redisqtest.Rig, f redisqtest.ChangeFunc) {
	r.Helper()
	r.Schedule(r.Entry("m1", redisqtest.To("a", "b")))
	for _, c := range r.Claim(redisqtest.One, 2) {
		if c.ID.Lane == "a" {
			r.MustSettle(redisqtest.One, redisqtest.Success(c))
		}
	}
	r.Trim(redisqtest.KeepNothing)
	r.Succeed("c")
	cut := redisqtest.Named("c", "n00001")
	r.Trim(redisqtest.KeepDigests)
	r.MustChangeNothing(func() {
		for _, c := range r.Change(f, redisqtest.Named("z", "never"), redisqtest.Named("z", "m1"), redisqtest.Named("a", "m1"), cut) {
			require.False(r, c.Changed, "%s", c.ID)
			require.ErrorIs(r, c.Err, dispatcher.ErrNotFound, "%s", c.ID)
		}
	})
}
