package deliveries

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
)

// ResentCases are about deliveries that a retry does not change, and about
// resends of delivered ones.
var ResentCases = []rig.Case{
	{Name: "a retry refuses a delivered delivery unless it includes delivered ones", Run: func(r *rig.Rig) {
		r.Succeed("a")
		r.MustChangeNothing(func() { r.MustRefuse(dispatcher.ErrDelivered, rig.Named("a", "n00001")) })
		require.Equal(r, []bool{true}, r.Retry(rig.Named("a", "n00001")))
	}},
	{Name: "a retry refuses a delivery that is marked as delivered too", Run: func(r *rig.Rig) {
		c := r.TakeOver("a", "m1")
		r.Settle(rig.One, rig.Success(c))
		r.MustChangeNothing(func() { r.MustRefuse(dispatcher.ErrDelivered, c.ID) })
	}},
	{Name: "a retry reports a delivery as delivered, even if its endpoint is now disabled", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Succeed(rig.EpOne)
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldDisabled))
		r.MustRefuse(dispatcher.ErrDelivered, rig.Named(rig.EpOne, "n00001"))
		require.ErrorIs(r, r.Change(r.Resend, rig.Named(rig.EpOne, "n00001"))[0].Err, dispatcher.ErrDisabled)
	}},
	{Name: "a resend that dies keeps the first success", Run: func(r *rig.Rig) {
		r.Succeed("a")
		at := r.Now
		id := rig.Named("a", "n00001")
		r.Pass(time.Minute)
		r.MustSettle(rig.One, rig.Death(askFor(r, id), dispatcher.ReasonGone))
		d := r.MustStand(id, dispatcher.StatusDead)
		require.Equal(r, at, d.Delivered)
		require.Equal(r, r.Now, d.Ended)
		require.Len(r, d.History, 2)
		require.Equal(r, dispatcher.Attempt{
			Number: 1, At: d.History[0].At, Duration: 10 * time.Millisecond, Status: 200, Verdict: dispatcher.Delivered,
		}, d.History[0], "the proof of the first success is found by its time")
		require.False(r, d.History[0].At.After(at))
	}},
	{Name: "a query returns a success after several attempts with its own number", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], 0))
		r.Move()
		r.MustSettle(rig.One, rig.Success(r.MustClaim(rig.One, rig.Named("a", "m1"))[0]))
		at := r.Now
		r.Pass(time.Minute)
		r.MustSettle(rig.One, rig.Failure(askFor(r, rig.Named("a", "m1")), time.Hour))
		d := r.MustStand(rig.Named("a", "m1"), dispatcher.StatusRetrying)
		require.Equal(r, at, d.Delivered)
		require.Len(r, d.History, 3)
		require.Equal(r, dispatcher.Delivered, d.History[1].Verdict)
	}},
	{Name: "a query returns the status of a first success if it is not 200", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(rig.One, rig.Answered(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], dispatcher.Delivered, 204))
		r.MustSettle(rig.One, rig.Failure(askFor(r, rig.Named("a", "m1")), time.Hour))
		require.Equal(r, 204, r.Look(rig.Named("a", "m1")).History[0].Status)
	}},
	{Name: "a query returns a late first success beside the failure of the same number", Run: func(r *rig.Rig) {
		late := r.TakeOver("a", "m1")
		r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, late.ID)[0], time.Hour))
		r.Settle(rig.Two, rig.Success(late))
		r.MustSettle(rig.One, rig.Failure(askFor(r, late.ID), time.Hour))
		d := r.MustStand(late.ID, dispatcher.StatusRetrying)
		require.Len(r, d.History, 3)
		require.Equal(r, []dispatcher.Verdict{dispatcher.Retry, dispatcher.Delivered, dispatcher.Retry},
			[]dispatcher.Verdict{d.History[0].Verdict, d.History[1].Verdict, d.History[2].Verdict})
		require.Equal(r, d.Delivered, d.History[1].At)
	}},
	{Name: "a resend that succeeds does not change the time of the first success", Run: func(r *rig.Rig) {
		r.Succeed("a")
		at := r.Now
		id := rig.Named("a", "n00001")
		for range 2 {
			r.Pass(time.Minute)
			r.MustSettle(rig.One, rig.Success(askFor(r, id)))
		}
		d := r.MustStand(id, dispatcher.StatusDelivered)
		require.Equal(r, at, d.Delivered)
		require.Equal(r, r.Now, d.Ended)
		require.Len(r, d.History, 3)
	}},
	{Name: "a success stays in the history after any number of failed retries", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], 0))
		r.Move()
		r.MustSettle(rig.One, rig.Success(r.MustClaim(rig.One, rig.Named("a", "m1"))[0]))
		for range 40 {
			r.MustSettle(rig.One, rig.Failure(askFor(r, rig.Named("a", "m1")), time.Hour))
		}
		d := r.Look(rig.Named("a", "m1"))
		require.Len(r, d.History, 32)
		require.Equal(r, dispatcher.Delivered, d.History[0].Verdict)
		require.Equal(r, 2, d.History[0].Number)
		require.Equal(r, 42, d.History[31].Number)
	}},
	{Name: "a retry refuses an expired delivery in any place", Run: func(r *rig.Rig) {
		soon := rig.Expires(r.Now.Add(time.Minute))
		r.Schedule(r.Entry("waits", rig.To("a"), rig.Delay(time.Hour), soon), r.Entry("ended", rig.To("a"), rig.Delay(time.Hour), soon))
		r.Cancel(rig.Named("a", "ended"))
		r.Schedule(r.Entry("ready", rig.To("a"), soon), r.Entry("marked", rig.To("a"), soon))
		r.Cancel(rig.Named("a", "marked"))
		r.Schedule(r.Entry("first", rig.To("b"), rig.Keyed("k"), rig.Delay(time.Hour)), r.Entry("behind", rig.To("b"), rig.Keyed("k"), soon))
		r.Pass(time.Minute)
		r.MustChangeNothing(func() {
			r.MustRefuse(dispatcher.ErrExpired, rig.IDs("a", "waits", "ended", "ready", "marked")...)
			r.MustRefuse(dispatcher.ErrExpired, rig.Named("b", "behind"))
		})
	}},
	{Name: "a retry undoes a cancel in flight, even if the delivery expired meanwhile", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Expires(r.Now.Add(time.Minute))))
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		r.Cancel(c.ID)
		r.Pass(time.Minute)
		r.Change(r.Spare, c.ID)
		r.MustStand(c.ID, dispatcher.StatusInFlight)
		r.MustSettle(rig.One, rig.Success(c))
	}},
	{Name: "a retry refuses a delivery behind another of its key, but accepts the first one", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Keyed("k"), rig.Delay(time.Hour)), r.Entry("m2", rig.To("a"), rig.Keyed("k")))
		r.MustChangeNothing(func() { r.MustRefuse(dispatcher.ErrOrder, rig.Named("a", "m2")) })
		require.Equal(r, []bool{true}, r.Retry(rig.Named("a", "m1")))
		r.MustClaim(rig.One, rig.Named("a", "m1"))
		r.MustRefuse(dispatcher.ErrOrder, rig.Named("a", "m2"))
	}},
}
