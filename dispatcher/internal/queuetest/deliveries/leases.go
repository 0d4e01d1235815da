package deliveries

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
)

// LeaseCases are about the lease of an outcome. The same instance may lease the
// delivery again before it hears that it gave the first lease up.
var LeaseCases = []rig.Case{
	{Name: "a claim tells the time of the lease", Run: func(r *rig.Rig) {
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
	{Name: "a lease of unknown time can be handed back too", Run: func(r *rig.Rig) {
		r.Publish("a", "m1")
		c := r.MustClaim(rig.One, rig.Named("a", "m1"))[0]
		c.Leased = time.Time{}
		r.MustSettle(rig.One, rig.HandBack(c))
		r.MustStand(c.ID, dispatcher.StatusReady)
	}},
}
