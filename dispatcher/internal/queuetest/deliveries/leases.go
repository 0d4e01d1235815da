package deliveries

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
)

// LeaseCases are about the lease of an outcome. An instance may lease a delivery
// again before it receives the reply to the return of the first lease.
var LeaseCases = []rig.Case{
	{Name: "a claim returns the time of the lease", Run: func(r *rig.Rig) {
		r.Pass(1234567 * time.Nanosecond)
		at := r.Now.Truncate(time.Millisecond)
		got := r.ScheduleFor(rig.One, r.Setup.Permits/2, 64, r.Entry("m1", rig.To("a")), r.Entry("m2", rig.To("a", "b")))
		require.Equal(r, rig.To("a"), rig.Leased(got[0]))
		require.Equal(r, rig.To("a", "b"), rig.Leased(got[1]))
		for _, p := range append(got[0].Placed, got[1].Placed...) {
			require.Equal(r, at, p.At)
		}
		r.Publish("c", "m3")
		r.Pass(time.Second)
		c := r.MustClaim(rig.One, rig.Named("c", "m3"))[0]
		require.Equal(r, at.Add(time.Second), c.Leased)
		leases, err := r.Queue.Leases(r.Ctx, rig.One)
		require.NoError(r, err)
		require.ElementsMatch(r, []dispatcher.Lease{
			{ID: rig.Named("a", "m1"), At: at}, {ID: rig.Named("a", "m2"), At: at}, {ID: rig.Named("b", "m2"), At: at},
			{ID: rig.Named("c", "m3"), At: c.Leased},
		}, leases)
	}},
	{Name: "a repeated outcome without an attempt does not end a later lease", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		r.MustSettle(rig.One, rig.HandBack(c))
		r.Pass(time.Millisecond)
		again := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		refused := rig.Death(c, dispatcher.ReasonRefused)
		refused.Attempt = dispatcher.Attempt{}
		r.MustChangeNothing(func() {
			for _, s := range []dispatcher.Settlement{rig.HandBack(c), refused} {
				require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledLate}, r.Settle(rig.One, s))
			}
		})
		r.MustSettle(rig.One, rig.Success(again))
		r.MustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{Name: "an instance can return a lease of unknown time too", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		c.Leased = time.Time{}
		r.MustSettle(rig.One, rig.HandBack(c))
		r.MustStand(c.ID, dispatcher.StatusReady)
	}},
}

// InstanceCases are about queries of the instances.
var InstanceCases = []rig.Case{
	{Name: "a query returns the instances with their leases, the latest start first", Run: func(r *rig.Rig) {
		r.Pass(time.Second)
		r.Join("three", 7)
		r.Beat("untold")
		r.Publish("a", "m1", "m2")
		r.Publish("b", "m3")
		r.Publish("c", "m4")
		held := map[int]bool{}
		for _, lane := range rig.To("a", "b", "c") {
			held[r.Partition(lane)] = true
		}
		require.Len(r, r.Claim("three", 64), 4)
		list, next, err := r.Queue.Instances(r.Ctx, 0, "")
		require.NoError(r, err)
		require.Empty(r, next)
		require.Equal(r, dispatcher.InstanceState{
			Name: "three", Instance: dispatcher.Instance{Permits: 7, Version: "1.0", StartedAt: r.Now.Truncate(time.Millisecond)},
			InFlight: 4, Partitions: len(held),
		}, list[0])
		require.Contains(r, list[1:], dispatcher.InstanceState{Name: "untold"}, "it told nothing of itself")
		var names, paged []string
		for _, one := range list {
			names = append(names, one.Name)
		}
		require.Subset(r, names, []string{rig.One, rig.Two})
		for cursor := ""; cursor != "" || paged == nil; {
			page, next, err := r.Queue.Instances(r.Ctx, 1, cursor)
			require.NoError(r, err)
			require.Len(r, page, 1)
			paged, cursor = append(paged, page[0].Name), next
		}
		require.Equal(r, names, paged)
	}},
	{Name: "a query returns no instance that left, and refuses a cursor of another list", Run: func(r *rig.Rig) {
		r.Join("three", 7)
		require.NoError(r, r.Queue.Leave(r.Ctx, "three"))
		list, _, err := r.Queue.Instances(r.Ctx, 500, "")
		require.NoError(r, err)
		for _, one := range list {
			require.NotEqual(r, "three", one.Name)
		}
		for _, cursor := range []string{"x", "-", "1", "1-", "x-three"} {
			_, _, err := r.Queue.Instances(r.Ctx, 1, cursor)
			require.ErrorIs(r, err, dispatcher.ErrCursor, cursor)
		}
	}},
}
