package deliveries

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// ClaimCases are about leasing ready deliveries.
var ClaimCases = []rig.Case{
	{Name: "a claim of an empty store returns nothing", Run: func(r *rig.Rig) {
		r.MustChangeNothing(func() { r.MustClaimNothing(rig.One) })
	}},
	{Name: "a claim returns everything that an attempt needs", Run: func(r *rig.Rig) {
		e := r.Entry("m1", rig.To("a"))
		r.Schedule(e)
		r.Pass(time.Second)
		got := r.MustClaim(rig.One, rig.Named("a", "m1"))
		requireMessage(r, e.Message, got[0].Message)
		require.Equal(r, rig.Start, got[0].Due)
		require.Equal(r, 1, got[0].Attempt)
		require.Equal(r, 1, got[0].Rung)
		require.False(r, got[0].Asked)
		require.True(r, got[0].First)
		r.MustStand(rig.Named("a", "m1"), dispatcher.StatusInFlight)
	}},
	{Name: "a claim returns a lane's deliveries in the order of publishing", Run: func(r *rig.Rig) {
		r.Publish("a", "m2", "m1", "m3")
		require.Equal(r, rig.IDs("a", "m2", "m1"), rig.ClaimedIDs(r.Claim(rig.One, 64)))
	}},
	{Name: "a claim returns at most the wanted number", Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2")
		r.Publish("b", "m3", "m4")
		require.Len(r, r.Claim(rig.One, 3), 3)
		require.Len(r, r.Claim(rig.One, 64), 1)
	}},
	{Name: "a claim without a free permit returns nothing", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustChangeNothing(func() { require.Empty(r, r.ClaimWith(rig.One, 64, 0)) })
	}},
	{Name: "a claim never returns more than the free permits", Setup: stored.Setup{Permits: 4}, Run: func(r *rig.Rig) {
		for i := range 8 {
			r.Publish(dispatcher.Lane(fmt.Sprintf("l%d", i)), fmt.Sprintf("m%d", i))
		}
		require.LessOrEqual(r, len(r.ClaimWith(rig.One, 64, 3)), 3)
		require.LessOrEqual(r, len(r.ClaimWith(rig.Two, 64, 4)), 4)
	}},
	{Name: "a delivery is claimed once, by the first instance", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.MustClaim(rig.One, rig.Named("a", "m1"))
		r.MustClaimNothing(rig.Two)
		r.MustClaimNothing(rig.One)
		require.Equal(r, rig.IDs("a", "m1"), r.Leases(rig.One))
		require.Empty(r, r.Leases(rig.Two))
	}},
	{Name: "all instances share a lane's window", Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.MustClaim(rig.One, rig.Named("a", "m1"))
		require.Equal(r, rig.IDs("a", "m2"), rig.ClaimedIDs(r.Claim(rig.Two, 64)))
		r.MustClaimNothing(rig.One)
	}},
	{Name: "a claim by a fenced instance returns an error and no delivery", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		_, _, err := r.Queue.Reap(r.Ctx, rig.Two, rig.One)
		require.NoError(r, err)
		r.MustChangeNothing(func() {
			got, _, err := r.Queue.Claim(r.Ctx, rig.One, r.All(), 64, 512)
			require.ErrorIs(r, err, dispatcher.ErrFenced)
			require.Empty(r, got)
		})
	}},
	{Name: "a query of an instance's leases returns the oldest first", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		r.Publish("b", "m2", "m3")
		r.MustClaim(rig.One, rig.Named("a", "m1"))
		r.Pass(time.Millisecond)
		r.MustClaim(rig.Two, rig.Named("b", "m2"))
		r.Pass(time.Millisecond)
		r.MustClaim(rig.One, rig.Named("b", "m3"))
		require.Equal(r, []dispatcher.DeliveryID{rig.Named("a", "m1"), rig.Named("b", "m3")}, r.Leases(rig.One))
		require.Equal(r, rig.IDs("b", "m2"), r.Leases(rig.Two))
		require.Empty(r, r.Leases("nobody"))
	}},
	{Name: "an expired delivery dies without an attempt", Run: func(r *rig.Rig) {
		r.Schedule(
			r.Entry("m1", rig.To("a"), rig.Expires(rig.Start.Add(time.Second))),
			r.Entry("m2", rig.To("a"), rig.Expires(rig.Start.Add(time.Second+time.Millisecond))),
		)
		r.Pass(time.Second)
		got, hints, err := r.Queue.Claim(r.Ctx, rig.One, r.All(), 64, 512)
		require.NoError(r, err)
		require.Equal(r, rig.IDs("a", "m2"), rig.ClaimedIDs(got))
		require.Equal(r, 1, hints[0].Ended)
		d := r.MustStand(rig.Named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Zero(r, d.Attempts)
		require.Empty(r, d.History)
		require.Equal(r, rig.Start.Add(time.Second), d.Ended)
		require.Equal(r, int64(1), r.Stats().Dead[dispatcher.ReasonExpired])
	}},
	{Name: "a delivery that expires before its retry keeps its history", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a"), rig.Expires(rig.Start.Add(time.Minute))))
		r.MustSettle(rig.One, rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], time.Minute))
		r.Pass(time.Minute)
		r.Move()
		r.MustClaimNothing(rig.One)
		d := r.MustStand(rig.Named("a", "m1"), dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Equal(r, 1, d.Attempts)
		require.Len(r, d.History, 1)
	}},
	{Name: "a delivery whose record was deleted by hand blocks nothing and leaves no trace", Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2")
		r.Lose("m1")
		got, hints, err := r.Queue.Claim(r.Ctx, rig.One, r.All(), 64, 512)
		require.NoError(r, err)
		require.Equal(r, rig.IDs("a", "m2"), rig.ClaimedIDs(got))
		require.Equal(r, 1, hints[0].Lost)
		require.Equal(r, rig.IDs("a", "m2"), r.Leases(rig.One))
		_, err = r.Queue.Read(r.Ctx, "m1")
		require.ErrorIs(r, err, dispatcher.ErrNotFound)
	}},
	{Name: "a claim deletes all other keys of a delivery whose record is lost", Run: func(r *rig.Rig) {
		r.Schedule(r.Entry("m1", rig.To("a", "b")))
		for _, c := range r.Claim(rig.One, 2) {
			r.MustSettle(rig.One, rig.Failure(c, time.Second))
		}
		r.Lose("m1")
		r.Pass(time.Second)
		r.Move()
		r.MustClaimNothing(rig.One)
		r.MustClaimNothing(rig.One)
	}},
	{Name: "a lost record of a delivery with a late success leaves no trace either", Run: func(r *rig.Rig) {
		r.Settle(rig.One, rig.Success(r.TakeOver("a", "m1")))
		r.Lose("m1")
		r.MustClaimNothing(rig.One)
	}},
	{Name: "a settled delivery whose record was deleted by hand does no harm", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		r.Lose("m1")
		r.Settle(rig.One, rig.Failure(c, time.Second))
		r.Pass(time.Second)
		r.Move()
		r.MustClaimNothing(rig.One)
		r.Trim(rig.KeepNothing)
	}},
	{Name: "the counts of attempts and rungs continue at a retry", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		for n := 1; n <= 4; n++ {
			c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
			require.Equal(r, n, c.Attempt)
			require.Equal(r, n, c.Rung)
			require.Equal(r, n == 1, c.First)
			r.MustSettle(rig.One, rig.Failure(c, time.Second))
			r.Pass(time.Second)
			r.Move()
		}
	}},
}
