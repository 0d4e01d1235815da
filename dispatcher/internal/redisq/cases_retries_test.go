package redisq_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// BesideCases are about retries that a person requests while a delivery waits
// for its due time. Such a retry uses no rung of the ladder.
var BesideCases = []redisqtest.Case{
	{Name: "a failed retry on request uses no rung, and the delivery keeps its due time", Run: func(r *redisqtest.Rig) {
		due := waitFor(r, 30*time.Second)
		r.Pass(10 * time.Second)
		c := askFor(r, redisqtest.Named("a", "m1"))
		require.Equal(r, 2, c.Attempt)
		require.Equal(r, 2, c.Rung)
		require.Equal(r, due, c.WaitsOn)
		r.Pass(time.Second)
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, 30*time.Second))
		d := r.MustStand(c.ID, dispatcher.StatusRetrying)
		require.Equal(r, due, d.Due)
		require.Equal(r, 2, d.Attempts)
		require.Equal(r, due, d.History[1].Next)

		r.Pass(19 * time.Second)
		r.Move()
		c = r.MustClaim(redisqtest.One, c.ID)[0]
		require.Equal(r, 3, c.Attempt)
		require.Equal(r, 2, c.Rung, "the delivery is on the same rung as before")
		require.False(r, c.Asked)
		require.Zero(r, c.WaitsOn)
	}},
	{Name: "three failed retries on request use no rung", Run: func(r *redisqtest.Rig) {
		due := waitFor(r, time.Minute)
		for n := range 3 {
			c := askFor(r, redisqtest.Named("a", "m1"))
			require.Equal(r, 2, c.Rung)
			require.Equal(r, due, c.WaitsOn)
			r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
			require.Equal(r, n+1, r.State().Progress[c.ID].Beside)
		}
		require.Equal(r, due, r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusRetrying).Due)
	}},
	{Name: "a failed retry before the first attempt leaves the delivery scheduled", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		due := r.Now.Add(time.Hour)
		c := askFor(r, redisqtest.Named("a", "m1"))
		require.Equal(r, 1, c.Rung)
		require.Equal(r, due, c.WaitsOn)
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, 0))
		d := r.MustStand(c.ID, dispatcher.StatusScheduled)
		require.Equal(r, due, d.Due)
		require.Equal(r, "due", d.WaitingFor)
		r.Pass(time.Hour)
		r.Move()
		c = r.MustClaim(redisqtest.One, c.ID)[0]
		require.Equal(r, 2, c.Attempt)
		require.Equal(r, 1, c.Rung)
	}},
	{Name: "a delivery whose due time has passed meanwhile waits its rung again", Run: func(r *redisqtest.Rig) {
		waitFor(r, 30*time.Second)
		c := askFor(r, redisqtest.Named("a", "m1"))
		r.Pass(40 * time.Second)
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, 30*time.Second))
		require.Equal(r, r.Now.Add(30*time.Second), r.Inspect(c.ID).Due)
	}},
	{Name: "a receiver may delay the next attempt beyond the due time", Run: func(r *redisqtest.Rig) {
		due := waitFor(r, 30*time.Second)
		r.MustSettle(redisqtest.One, redisqtest.Paused(askFor(r, redisqtest.Named("a", "m1")), 30*time.Second, time.Second))
		require.Equal(r, due, r.Inspect(redisqtest.Named("a", "m1")).Due)
		r.Pass(time.Second) // the lane's pause is over
		r.MustSettle(redisqtest.One, redisqtest.Paused(askFor(r, redisqtest.Named("a", "m1")), 30*time.Second, time.Minute))
		require.Equal(r, r.Now.Add(time.Minute), r.Inspect(redisqtest.Named("a", "m1")).Due)
	}},
	{Name: "a second retry of a ready or in-flight delivery changes nothing", Run: func(r *redisqtest.Rig) {
		due := waitFor(r, time.Minute)
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		r.Pass(time.Second)
		r.MustChangeNothing(func() { require.Equal(r, []bool{false}, r.Retry(redisqtest.Named("a", "m1"))) })
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.MustChangeNothing(func() { require.ErrorIs(r, r.Change(r.Resend, c.ID)[0].Err, dispatcher.ErrInFlight) })
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
		require.Equal(r, due, r.Inspect(c.ID).Due)
	}},
	{Name: "the requested retry survives its holder's death and is due at once", Run: func(r *redisqtest.Rig) {
		due := waitFor(r, time.Hour)
		askFor(r, redisqtest.Named("a", "m1"))
		r.Reap(redisqtest.One)
		c := r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"))[0]
		require.True(r, c.Asked)
		require.Equal(r, 2, c.Rung)
		require.Equal(r, due, c.WaitsOn)
		require.Equal(r, 1, r.State().Progress[c.ID].Deaths)
	}},
	{Name: "the requested retry survives a hand-back", Run: func(r *redisqtest.Rig) {
		due := waitFor(r, time.Hour)
		r.MustSettle(redisqtest.One, redisqtest.HandBack(askFor(r, redisqtest.Named("a", "m1"))))
		require.Equal(r, due, r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"))[0].WaitsOn)
	}},
	{Name: "an outcome counts once if it is reported again because the result was lost", Run: func(r *redisqtest.Rig) {
		due := waitFor(r, time.Hour)
		c := askFor(r, redisqtest.Named("a", "m1"))
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
		r.MustChangeNothing(func() {
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Failure(c, time.Minute)))
		})
		again := askFor(r, redisqtest.Named("a", "m1"))
		r.MustChangeNothing(func() {
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(redisqtest.One, redisqtest.Failure(c, time.Minute)))
		})
		r.MustSettle(redisqtest.One, redisqtest.Failure(again, time.Minute))
		require.Equal(r, redisqtest.Progress{Attempts: 3, Beside: 2, Status: 500}, r.State().Progress[c.ID])
		require.Equal(r, due, r.Inspect(c.ID).Due)
	}},
	{Name: "a late success ends the waiting delivery", Run: func(r *redisqtest.Rig) {
		waitFor(r, time.Hour)
		c := askFor(r, redisqtest.Named("a", "m1"))
		r.Reap(redisqtest.One)
		r.MustSettle(redisqtest.Two, redisqtest.Failure(r.MustClaim(redisqtest.Two, c.ID)[0], time.Minute))
		r.MustLie(redisqtest.PlaceDue, "a", "m1")
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		r.MustLie(redisqtest.PlaceDone, "a", "m1")
	}},
	{Name: "an undone cancel does not change the requested retry", Run: func(r *redisqtest.Rig) {
		due := waitFor(r, time.Hour)
		c := askFor(r, redisqtest.Named("a", "m1"))
		r.Cancel(c.ID)
		r.Change(r.Resend, c.ID)
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
		require.Equal(r, due, r.MustStand(c.ID, dispatcher.StatusRetrying).Due)
	}},
	{Name: "a delivery that would wait past its expiry dies", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Expires(r.Now.Add(time.Minute))))
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 50*time.Second))
		c := askFor(r, redisqtest.Named("a", "m1"))
		r.Pass(50 * time.Second)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.One, redisqtest.Failure(c, 50*time.Second)))
		d := r.MustStand(c.ID, dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Equal(r, 2, d.Attempts)
		require.Len(r, d.History, 2)
	}},
	{Name: "a retry after a death starts a new ladder, and earlier requested retries do not count", Run: func(r *redisqtest.Rig) {
		waitFor(r, time.Hour)
		r.MustSettle(redisqtest.One, redisqtest.Failure(askFor(r, redisqtest.Named("a", "m1")), time.Minute))
		r.MustSettle(redisqtest.One, redisqtest.Death(askFor(r, redisqtest.Named("a", "m1")), dispatcher.ReasonGone))
		c := askFor(r, redisqtest.Named("a", "m1"))
		require.Equal(r, 4, c.Attempt)
		require.Equal(r, 1, c.Rung)
		require.Zero(r, c.WaitsOn, "its failure takes the first rung")
		r.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
		require.Equal(r, r.Now.Add(time.Minute), r.MustStand(c.ID, dispatcher.StatusRetrying).Due)
	}},
	{Name: "the first of a line stays first after a retry", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], time.Hour))
		r.MustSettle(redisqtest.One, redisqtest.Failure(askFor(r, redisqtest.Named("a", "m1")), time.Hour))
		r.MustLie(redisqtest.PlaceDue, "a", "m1")
		r.MustLie(redisqtest.PlaceBehind, "a", "m2")
		r.MustClaimNothing(redisqtest.One)
	}},
}

// waitFor lets the first attempt of m1 to lane a fail. It returns the due time of
// the next one.
func waitFor(r *redisqtest.Rig, wait time.Duration) time.Time {
	r.Helper()
	r.Publish("a", "m1")
	r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], wait))
	return r.Now.Add(wait)
}

// askFor requests a retry of a delivery and claims it.
func askFor(r *redisqtest.Rig, id dispatcher.DeliveryID) dispatcher.Claimed {
	r.Helper()
	require.Equal(r, []bool{true}, r.Retry(id))
	c := r.MustClaim(redisqtest.One, id)[0]
	require.True(r, c.Asked)
	return c
}

// ResentCases are about deliveries that a retry does not change, and about
// resends of delivered ones.
var ResentCases = []redisqtest.Case{
	{Name: "a retry refuses a delivered delivery unless it includes delivered ones", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		r.MustChangeNothing(func() { r.MustRefuse(dispatcher.ErrDelivered, redisqtest.Named("a", "n00001")) })
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "n00001")))
	}},
	{Name: "a retry refuses a delivery that is marked as delivered too", Run: func(r *redisqtest.Rig) {
		c := r.TakeOver("a", "m1")
		r.MustClaim(redisqtest.Two, c.ID)
		r.Settle(redisqtest.One, redisqtest.Success(c))
		require.NotEmpty(r, r.State().Marks)
		r.MustChangeNothing(func() { r.MustRefuse(dispatcher.ErrDelivered, c.ID) })
	}},
	{Name: "a retry reports a delivery as delivered, even if its endpoint is now disabled", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Succeed(redisqtest.EpOne)
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.MustRefuse(dispatcher.ErrDelivered, redisqtest.Named(redisqtest.EpOne, "n00001"))
		require.ErrorIs(r, r.Change(r.Resend, redisqtest.Named(redisqtest.EpOne, "n00001"))[0].Err, dispatcher.ErrDisabled)
	}},
	{Name: "a resend that dies keeps the first success", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		at := r.Now
		id := redisqtest.Named("a", "n00001")
		r.Pass(time.Minute)
		r.MustSettle(redisqtest.One, redisqtest.Death(askFor(r, id), dispatcher.ReasonGone))
		d := r.MustStand(id, dispatcher.StatusDead)
		require.Equal(r, at, d.Delivered)
		require.Equal(r, r.Now, d.Ended)
		require.Len(r, d.History, 2)
		require.Equal(r, dispatcher.Attempt{
			Number: 1, At: d.History[0].At, Duration: 10 * time.Millisecond, Status: 200, Verdict: dispatcher.Delivered,
		}, d.History[0], "the proof of the first success is found by its time")
		require.False(r, d.History[0].At.After(at))
	}},
	{Name: "a query returns a success after several attempts with its own number", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0))
		r.Move()
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]))
		at := r.Now
		r.Pass(time.Minute)
		r.MustSettle(redisqtest.One, redisqtest.Failure(askFor(r, redisqtest.Named("a", "m1")), time.Hour))
		d := r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusRetrying)
		require.Equal(r, at, d.Delivered)
		require.Len(r, d.History, 3)
		require.Equal(r, dispatcher.Delivered, d.History[1].Verdict)
	}},
	{Name: "a query returns the status of a first success if it is not 200", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Answered(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], dispatcher.Delivered, 204))
		r.MustSettle(redisqtest.One, redisqtest.Failure(askFor(r, redisqtest.Named("a", "m1")), time.Hour))
		require.Equal(r, 204, r.Inspect(redisqtest.Named("a", "m1")).History[0].Status)
	}},
	{Name: "a query returns a late first success beside the failure of the same number", Run: func(r *redisqtest.Rig) {
		late := r.TakeOver("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, late.ID)[0], time.Hour))
		r.Settle(redisqtest.Two, redisqtest.Success(late))
		r.MustSettle(redisqtest.One, redisqtest.Failure(askFor(r, late.ID), time.Hour))
		d := r.MustStand(late.ID, dispatcher.StatusRetrying)
		require.Len(r, d.History, 3)
		require.Equal(r, []dispatcher.Verdict{dispatcher.Retry, dispatcher.Delivered, dispatcher.Retry},
			[]dispatcher.Verdict{d.History[0].Verdict, d.History[1].Verdict, d.History[2].Verdict})
		require.Equal(r, d.Delivered, d.History[1].At)
	}},
	{Name: "a resend that succeeds does not change the time of the first success", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		at := r.Now
		id := redisqtest.Named("a", "n00001")
		for range 2 {
			r.Pass(time.Minute)
			r.MustSettle(redisqtest.One, redisqtest.Success(askFor(r, id)))
		}
		d := r.MustStand(id, dispatcher.StatusDelivered)
		require.Equal(r, at, d.Delivered)
		require.Equal(r, r.Now, d.Ended)
		require.Len(r, d.History, 3)
	}},
	{Name: "a success stays in the history after any number of failed retries", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0))
		r.Move()
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]))
		for range 40 {
			r.MustSettle(redisqtest.One, redisqtest.Failure(askFor(r, redisqtest.Named("a", "m1")), time.Hour))
		}
		d := r.Inspect(redisqtest.Named("a", "m1"))
		require.Len(r, d.History, 32)
		require.Equal(r, dispatcher.Delivered, d.History[0].Verdict)
		require.Equal(r, 2, d.History[0].Number)
		require.Equal(r, 42, d.History[31].Number)
	}},
	{Name: "a retry refuses an expired delivery in any place", Run: func(r *redisqtest.Rig) {
		soon := redisqtest.Expires(r.Now.Add(time.Minute))
		r.Schedule(r.Entry("waits", redisqtest.To("a"), redisqtest.Delay(time.Hour), soon), r.Entry("ended", redisqtest.To("a"), redisqtest.Delay(time.Hour), soon))
		r.Cancel(redisqtest.Named("a", "ended"))
		r.Schedule(r.Entry("ready", redisqtest.To("a"), soon), r.Entry("marked", redisqtest.To("a"), soon))
		r.Cancel(redisqtest.Named("a", "marked"))
		r.Schedule(r.Entry("first", redisqtest.To("b"), redisqtest.Keyed("k"), redisqtest.Delay(time.Hour)), r.Entry("behind", redisqtest.To("b"), redisqtest.Keyed("k"), soon))
		r.Pass(time.Minute)
		r.MustChangeNothing(func() {
			r.MustRefuse(dispatcher.ErrExpired, redisqtest.IDs("a", "waits", "ended", "ready", "marked")...)
			r.MustRefuse(dispatcher.ErrExpired, redisqtest.Named("b", "behind"))
		})
	}},
	{Name: "a retry undoes a cancel in flight, even if the delivery expired meanwhile", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Expires(r.Now.Add(time.Minute))))
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.Cancel(c.ID)
		r.Pass(time.Minute)
		r.Change(r.Spare, c.ID)
		r.MustStand(c.ID, dispatcher.StatusInFlight)
		r.MustSettle(redisqtest.One, redisqtest.Success(c))
	}},
	{Name: "a retry refuses a delivery behind another of its key, but accepts the first one", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Keyed("k"), redisqtest.Delay(time.Hour)), r.Entry("m2", redisqtest.To("a"), redisqtest.Keyed("k")))
		r.MustChangeNothing(func() { r.MustRefuse(dispatcher.ErrOrder, redisqtest.Named("a", "m2")) })
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.MustRefuse(dispatcher.ErrOrder, redisqtest.Named("a", "m2"))
	}},
}
