package deliveries

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// CancelCases are about cancelling deliveries.
var CancelCases = []rig.Case{
	{Name: "what is scheduled is cancelled at once", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Minute)))
		r.Pass(time.Second)
		require.Equal(r, []bool{true}, r.Cancel(rig.Named("a", "m1")))
		d := r.MustStand(rig.Named("a", "m1"), dispatcher.StatusCancelled)
		require.Equal(r, r.Now, d.Ended)
		require.Zero(r, d.Due)
		r.Pass(time.Hour)
		r.Move()
		r.MustClaimNothing(rig.One)
	}},
	{Name: "what waits for its rung is cancelled at once and keeps its history", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], time.Minute))
		require.Equal(r, []bool{true}, r.Cancel(rig.Named("a", "m1")))
		d := r.MustStand(rig.Named("a", "m1"), dispatcher.StatusCancelled)
		require.Equal(r, 1, d.Attempts)
		require.Len(r, d.History, 1)
	}},
	{Name: "what is ready is never claimed again", Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2")
		require.Equal(r, []bool{true}, r.Cancel(rig.Named("a", "m1")))
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusCancelled)
		r.Pass(time.Second)
		got, hints, err := r.Queue.Claim(r.Ctx, rig.One, r.All(), 64, 512)
		require.NoError(r, err)
		require.Equal(r, rig.IDs("a", "m2"), rig.ClaimedIDs(got))
		require.Zero(r, hints[0].Ended)
		d := r.MustStand(rig.Named("a", "m1"), dispatcher.StatusCancelled)
		require.Equal(r, r.Now.Add(-time.Second), d.Ended, "it ended when it was cancelled")
		require.Equal(r, int64(1), r.Stats().Counts[dispatcher.StatusCancelled])
	}},
	{Name: "a whole lane that is cancelled can be claimed empty", Run: func(r *rig.Rig) {
		var all []dispatcher.DeliveryID
		for range 20 {
			id := r.NewID()
			r.Publish("a", id)
			all = append(all, rig.Named("a", id))
		}
		r.Cancel(all...)
		for range 20 {
			require.Empty(r, r.Claim(rig.One, 64))
		}
		require.Equal(r, int64(20), r.Stats().Counts[dispatcher.StatusCancelled])
		require.Empty(r, r.State().Marks)
	}},
	{Name: "a success of what was in flight wins over the cancel", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		require.Equal(r, []bool{true}, r.Cancel(c.ID))
		r.MustStand(c.ID, dispatcher.StatusCancelled)
		r.MustSettle(rig.One, rig.Success(c))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "anything else of what was in flight ends it as cancelled", Run: func(r *rig.Rig) {
		outcomes := map[string]func(dispatcher.Claimed) dispatcher.Settlement{
			"m1": func(c dispatcher.Claimed) dispatcher.Settlement { return rig.Failure(c, 0) },
			"m2": func(c dispatcher.Claimed) dispatcher.Settlement { return rig.Silence(c, 0) },
			"m3": func(c dispatcher.Claimed) dispatcher.Settlement { return rig.Death(c, dispatcher.ReasonGone) },
			"m4": rig.HandBack,
		}
		for _, id := range stored.SortedKeys(outcomes) {
			r.Publish("a", id)
			c := r.MustClaim(rig.One, rig.Named("a", id))[0]
			r.Cancel(c.ID)
			r.Pass(time.Second)
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(rig.One, outcomes[id](c)))
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
		r.MustClaimNothing(rig.One)
	}},
	{Name: "what has ended stays as it is", Run: func(r *rig.Rig) {
		r.Succeed("a")
		r.MustSettle(rig.One, rig.Death(r.TakeNew("a"), dispatcher.ReasonGone))
		r.Schedule(r.Entry("m3", rig.To("a"), rig.Delay(time.Hour)))
		r.Cancel(rig.Named("a", "m3"))
		r.MustChangeNothing(func() {
			require.Equal(r, []bool{false, false, false},
				r.Cancel(rig.Named("a", "n00001"), rig.Named("a", "n00002"), rig.Named("a", "m3")))
		})
	}},
	{Name: "a second cancel of what is ready or in flight changes nothing", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustClaim(rig.One, rig.Named("a", "m1"))
		r.Publish("a", "m2")
		require.Equal(r, []bool{true, true}, r.Cancel(rig.Named("a", "m1"), rig.Named("a", "m2")))
		r.MustChangeNothing(func() {
			require.Equal(r, []bool{false, false}, r.Cancel(rig.Named("a", "m1"), rig.Named("a", "m2")))
		})
	}},
	{Name: "one given twice in a call is cancelled once", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.Schedule(r.Entry("m2", rig.To("a"), rig.Delay(time.Hour)))
		require.Equal(r, []bool{true, false, true, false},
			r.Cancel(rig.Named("a", "m1"), rig.Named("a", "m1"), rig.Named("a", "m2"), rig.Named("a", "m2")))
	}},
	{Name: "a cancel does not take back a late success", Run: func(r *rig.Rig) {
		c := r.TakeOver("a", "m1")
		r.Settle(rig.One, rig.Success(c))
		require.Equal(r, []bool{false}, r.Cancel(c.ID))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
		r.MustClaimNothing(rig.Two)
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "what nobody knows is not found, and nothing is written", Run: func(r *rig.Rig) {
		mustNotFind(r, r.Queue.Cancel)
	}},
	{Name: "cancelling nothing does nothing", Run: func(r *rig.Rig) {
		r.MustChangeNothing(func() { require.Empty(r, r.Cancel()) })
	}},
	{Name: "one lane of a fan-out can be cancelled alone", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a", "b"), rig.Delay(time.Minute)))
		r.Cancel(rig.Named("a", "m1"))
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusCancelled)
		r.MustStand(rig.Named("b", "m1"), dispatcher.StatusScheduled)
	}},
}

// RetryCases are about attempts that a person asks for.
var RetryCases = []rig.Case{
	{Name: "what is scheduled is ready at once", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Hour)))
		r.Pass(time.Second)
		require.Equal(r, []bool{true}, r.Retry(rig.Named("a", "m1")))
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusReady)
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		require.Equal(r, 1, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		require.Equal(r, r.Now, c.Due)
	}},
	{Name: "what waits for its rung keeps it, and is attempted beside it", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		for range 2 {
			r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], time.Minute))
			r.Pass(time.Minute)
			r.Move()
		}
		r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], time.Minute))
		require.Equal(r, []bool{true}, r.Retry(rig.Named("a", "m1")))
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		require.Equal(r, 4, c.Attempt)
		require.Equal(r, 4, c.Rung)
		require.True(r, c.Asked)
		require.False(r, c.First)
		r.MustSettle(rig.One, rig.Failure(c, time.Minute))
		r.Pass(time.Minute)
		r.Move()
		c = r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		require.Equal(r, 5, c.Attempt)
		require.Equal(r, 4, c.Rung)
		require.False(r, c.Asked, "that was asked for once")
	}},
	{Name: "what has ended starts a new ladder, and attempts go on counting", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], 0))
		r.Move()
		r.MustSettle(rig.One, rig.Death(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], dispatcher.ReasonExhausted))
		require.Equal(r, []bool{true}, r.Retry(rig.Named("a", "m1")))
		require.Empty(r, r.Stats().Dead)

		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		require.Equal(r, 3, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		r.MustSettle(rig.One, rig.Failure(c, time.Minute))
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusRetrying)
		r.Cancel(rig.Named("a", "m1"))

		require.Equal(r, []bool{true}, r.Retry(rig.Named("a", "m1")))
		c = r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		require.Equal(r, 4, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		r.MustSettle(rig.One, rig.Success(c))

		require.Equal(r, []bool{true}, r.Retry(rig.Named("a", "m1")))
		c = r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		require.Equal(r, 5, c.Attempt)
		require.Equal(r, 1, c.Rung)
		r.MustSettle(rig.One, rig.Success(c))
		d := r.MustStand(rig.Named("a", "m1"), dispatcher.StatusDelivered)
		require.Equal(r, 5, d.Attempts)
		require.Len(r, d.History, 5)
	}},
	{Name: "one delivered at the first attempt can be sent again", Run: func(r *rig.Rig) {
		r.Succeed("a")
		require.Equal(r, []bool{true}, r.Retry(rig.Named("a", "n00001")))
		r.MustStand(rig.Named("a", "n00001"), dispatcher.StatusReady)
		c := r.MustClaim(rig.One, rig.Named("a", "n00001"))[0]
		require.Equal(r, 2, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.True(r, c.Asked)
		r.MustSettle(rig.One, rig.Success(c))
		require.Equal(r, 2, r.Look(c.ID).Attempts)
	}},
	{Name: "one that was cancelled before its first attempt starts at its first", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Hour)))
		r.Cancel(rig.Named("a", "m1"))
		require.Equal(r, []bool{true}, r.Retry(rig.Named("a", "m1")))
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		require.Equal(r, 1, c.Attempt)
		require.Equal(r, 1, c.Rung)
	}},
	{Name: "what is in flight is left alone", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(rig.Two, rig.Named("a", "m1"))[0]
		r.MustChangeNothing(func() {
			got := r.Change(r.Resend, c.ID)
			require.False(r, got[0].Changed)
			require.ErrorIs(r, got[0].Err, dispatcher.ErrInFlight)
		})
		r.MustSettle(rig.Two, rig.Success(c))
	}},
	{Name: "what is ready stays where it is", Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2")
		r.MustChangeNothing(func() { require.Equal(r, []bool{false}, r.Retry(rig.Named("a", "m1"))) })
	}},
	{Name: "a retry takes a cancel of what is ready back", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.Cancel(rig.Named("a", "m1"))
		require.Equal(r, []bool{true}, r.Retry(rig.Named("a", "m1")))
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusReady)
		r.MustClaim(rig.One, rig.Named("a", "m1"))
	}},
	{Name: "a retry takes a cancel of what is in flight back", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		r.Cancel(c.ID)
		r.Change(r.Resend, c.ID)
		r.MustStand(c.ID, dispatcher.StatusInFlight)
		r.MustSettle(rig.One, rig.Failure(c, time.Minute))
		r.MustStand(c.ID, dispatcher.StatusRetrying)
	}},
	{Name: "a retry does not undo a late success", Run: func(r *rig.Rig) {
		c := r.TakeOver("a", "m1")
		r.Settle(rig.One, rig.Success(c))
		r.MustChangeNothing(func() { require.False(r, r.Change(r.Resend, c.ID)[0].Changed) })
		r.MustClaimNothing(rig.Two)
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "what nobody knows is not found, and nothing is written", Run: func(r *rig.Rig) {
		mustNotFind(r, r.Resend)
	}},
	{Name: "one given twice in a call is made ready once", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Hour)))
		require.Equal(r, []bool{true, false}, r.Retry(rig.Named("a", "m1"), rig.Named("a", "m1")))
		require.Equal(r, rig.IDs("a", "m1"), r.State().Ready["a"])
	}},
	{Name: "several go to the end of their lanes in the order given", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Delay(time.Hour)), r.Entry("m2", rig.To("a"), rig.Delay(2*time.Hour)))
		r.Publish("a", "m3")
		r.Retry(rig.Named("a", "m2"), rig.Named("a", "m1"))
		require.Equal(r, rig.IDs("a", "m3", "m2", "m1"), r.State().Ready["a"])
	}},
	{Name: "retrying nothing does nothing", Run: func(r *rig.Rig) {
		r.MustChangeNothing(func() { require.Empty(r, r.Retry()) })
	}},
}

// mustNotFind asks for changes of deliveries that were never made, and of one
// that is gone.
func mustNotFind(r *rig.Rig, f rig.ChangeFunc) {
	r.Helper()
	r.Schedule(r.Entry("m1", rig.To("a", "b")))
	for _, c := range r.Claim(rig.One, 2) {
		if c.ID.Lane == "a" {
			r.MustSettle(rig.One, rig.Success(c))
		}
	}
	r.Trim(rig.KeepNothing)
	r.Succeed("c")
	cut := rig.Named("c", "n00001")
	r.Trim(rig.KeepDigests)
	r.MustChangeNothing(func() {
		for _, c := range r.Change(f, rig.Named("z", "never"), rig.Named("z", "m1"), rig.Named("a", "m1"), cut) {
			require.False(r, c.Changed, "%s", c.ID)
			require.ErrorIs(r, c.Err, dispatcher.ErrNotFound, "%s", c.ID)
		}
	})
}
