package deliveries

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// EndCases are about the deaths that calls report, and about the counts of ends.
// The store keeps these counts for ever.
var EndCases = []rig.Case{
	{Name: "a settle reports the death that it caused", Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], 0))
		r.Move()
		c := r.MustClaim(rig.One, rig.Named("a", "m2"), rig.Named("a", "m3"))
		mustTellDeaths(r)
		r.Settle(rig.One, rig.Death(c[0], dispatcher.ReasonGone), rig.Success(c[1]))
		mustTellDeaths(r, dispatcher.Death{ID: c[0].ID, Reason: dispatcher.ReasonGone, Attempts: 1})
		r.MustSettle(rig.One, rig.Death(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], dispatcher.ReasonExhausted))
		mustTellDeaths(r, dispatcher.Death{ID: rig.Named("a", "m1"), Reason: dispatcher.ReasonExhausted, Attempts: 2})
	}},
	{Name: "a settle reports no death of a delivery that was cancelled meanwhile", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		r.Cancel(c.ID)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(rig.One, rig.Death(c, dispatcher.ReasonGone)))
		mustTellDeaths(r)
		require.Empty(r, r.Stats().EverDead)
		require.Equal(r, int64(1), r.Stats().Cancelled)
	}},
	{Name: "a settle reports the reason disabled if the lane was disabled meanwhile", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Publish(rig.EpOne, "m1")
		c := r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))[0]
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldDisabled))
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(rig.One, rig.Failure(c, time.Hour)))
		mustTellDeaths(r, dispatcher.Death{ID: c.ID, Reason: dispatcher.ReasonDisabled, Attempts: 1})
	}},
	{Name: "a claim that finds an expired delivery reports its death", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Expires(rig.Start.Add(time.Minute))))
		r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], 0))
		r.Move()
		r.Pass(time.Hour)
		mustTellDeaths(r)
		r.MustClaimNothing(rig.One)
		mustTellDeaths(r, dispatcher.Death{ID: rig.Named("a", "m1"), Reason: dispatcher.ReasonExpired, Attempts: 1})
	}},
	{Name: "any call that ends a delivery of a disabled endpoint reports its death", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Schedule(
			r.Entry("later", rig.To(rig.EpOne), rig.Delay(time.Hour)), r.Entry("soon", rig.To(rig.EpOne), rig.Delay(time.Minute)),
			r.Entry("ready", rig.To(rig.EpOne)), r.Entry("held", rig.To(rig.EpOne)),
		)
		r.MustClaim(rig.Two, rig.Named(rig.EpOne, "ready"))
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldDisabled))
		disabled := func(message string) dispatcher.Death {
			return dispatcher.Death{ID: rig.Named(rig.EpOne, message), Reason: dispatcher.ReasonDisabled}
		}
		r.Publish(rig.EpOne, "new")
		mustTellDeaths(r, disabled("new"))
		r.Move()
		mustTellDeaths(r, disabled("held"))
		r.Reap(rig.Two)
		mustTellDeaths(r, disabled("ready"))
		r.Pass(time.Minute)
		r.Move()
		mustTellDeaths(r, disabled("soon"))
		_, _, hints, err := r.Queue.Sweep(r.Ctx, rig.One, rig.EpOne, "")
		require.NoError(r, err)
		r.MustBeCurrent(hints)
		mustTellDeaths(r, disabled("later"))
	}},
	{Name: "deliveries behind a cancelled one die with their lane and are reported", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.PublishKeyed(rig.EpOne, "k", "m1", "m2", "m3")
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldDisabled))
		r.Cancel(rig.Named(rig.EpOne, "m2"))
		mustTellDeaths(r)
		r.Move()
		mustTellDeaths(r,
			dispatcher.Death{ID: rig.Named(rig.EpOne, "m1"), Reason: dispatcher.ReasonDisabled},
			dispatcher.Death{ID: rig.Named(rig.EpOne, "m3"), Reason: dispatcher.ReasonDisabled},
		)
	}},
	{Name: "a cancel of the first delivery of a line reports the deaths behind it", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Schedule(r.Entry("m1", rig.To(rig.EpOne), rig.Delay(time.Hour), rig.Keyed("k")), r.Entry("m2", rig.To(rig.EpOne), rig.Keyed("k")))
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldDisabled))
		r.Cancel(rig.Named(rig.EpOne, "m1"))
		mustTellDeaths(r, dispatcher.Death{ID: rig.Named(rig.EpOne, "m2"), Reason: dispatcher.ReasonDisabled})
	}},
	{Name: "a delivery to a full lane dies and is reported", Setup: stored.Setup{MaxWaiting: 1}, Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		e := r.Entry("m2", rig.To("a", "b"))
		e.Fan = true
		r.Schedule(e)
		mustTellDeaths(r, dispatcher.Death{ID: rig.Named("a", "m2"), Reason: dispatcher.ReasonOverflow})
	}},
	{Name: "a delivery that killed its holders has one attempt for each holder", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], 0))
		r.Move()
		for n := range 3 {
			mustTellDeaths(r)
			r.DieWith(fmt.Sprint("victim", n), rig.Named("a", "m1"))
		}
		mustTellDeaths(r, dispatcher.Death{ID: rig.Named("a", "m1"), Reason: dispatcher.ReasonPoison, Attempts: 4})
	}},
	{Name: "a death is reported once, even if its outcome is settled twice", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		s := rig.Death(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], dispatcher.ReasonRefused)
		r.MustSettle(rig.One, s)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledBefore}, r.Settle(rig.One, s))
		mustTellDeaths(r, dispatcher.Death{ID: s.ID, Reason: dispatcher.ReasonRefused, Attempts: 1})
		require.Equal(r, map[dispatcher.DeadReason]int64{dispatcher.ReasonRefused: 1}, r.Stats().EverDead)
		r.Pass(time.Millisecond)
		r.Reap(rig.One)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledBefore}, r.Settle(rig.One, s), "the outcome was settled before the instance was declared dead")
	}},
	{Name: "a death that the next holder reported is late for the holder before", Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2")
		c := r.MustClaim(rig.One, rig.Named("a", "m1"), rig.Named("a", "m2"))
		r.Reap(rig.One)
		r.MustClaim(rig.Two, rig.Named("a", "m1"), rig.Named("a", "m2"))
		r.Settle(rig.Two, rig.Death(c[0], dispatcher.ReasonGone), rig.Success(c[1]))
		late := []dispatcher.SettleResult{dispatcher.SettledLate, dispatcher.SettledLate}
		require.Equal(r, late, r.Settle(rig.One, rig.Death(c[0], dispatcher.ReasonGone), rig.Death(c[1], dispatcher.ReasonGone)))
	}},
	{Name: "a repeated death of a cancelled delivery is late", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		s := rig.Death(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], dispatcher.ReasonGone)
		r.Cancel(s.ID)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(rig.One, s))
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(rig.One, s))
	}},
	{Name: "an end stays counted, even after a retry", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		for i, lane := range rig.ManyLanes(12) {
			r.Publish(lane, fmt.Sprint("m", i))
		}
		var batch []dispatcher.Settlement
		for _, c := range r.Claim(rig.One, 64) {
			batch = append(batch, rig.Death(c, dispatcher.ReasonGone))
		}
		require.Len(r, batch, 12)
		r.Cancel(batch[11].ID)
		r.Settle(rig.One, batch...)
		told := func() {
			require.Equal(r, map[dispatcher.DeadReason]int64{dispatcher.ReasonGone: 11}, r.Stats().EverDead)
			require.Equal(r, int64(1), r.Stats().Cancelled)
		}
		told()
		r.Retry(batch[0].ID, batch[11].ID)
		require.Equal(r, int64(10), r.Stats().Dead[dispatcher.ReasonGone])
		told()
		r.Pass(time.Hour)
		r.Trim(rig.KeepNothing)
		require.Empty(r, r.Stats().Dead)
		told()
	}},
}

// mustTellDeaths fails the case unless the calls after its last one reported
// exactly these deaths, in any order.
func mustTellDeaths(r *rig.Rig, want ...dispatcher.Death) {
	r.Helper()
	require.ElementsMatch(r, want, r.Died)
	r.Died = nil
}
