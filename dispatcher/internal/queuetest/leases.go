package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// leaseCases are about the lease of an outcome. The same instance may lease the
// delivery again before it hears that it gave the first lease up.
var leaseCases = []testCase{
	{name: "a claim tells the time of the lease", run: func(r *rig) {
		r.pass(1234567 * time.Nanosecond)
		at := r.now.Truncate(time.Millisecond)
		got := r.scheduleFor(one, r.setup.Permits/2, 64, r.entry("m1", to("a")), r.entry("m2", to("a", "b")))
		require.Equal(r, to("a"), got[0].Leased)
		require.Equal(r, []time.Time{at}, got[0].LeasedAt)
		require.Equal(r, to("a", "b"), got[1].Leased)
		require.Equal(r, []time.Time{at, at}, got[1].LeasedAt)
		r.publish("c", "m3")
		r.pass(time.Second)
		c := r.mustClaim(one, named("c", "m3"))[0]
		require.Equal(r, at.Add(time.Second), c.Leased)
		leases, err := r.Queue.Leases(r.ctx, one)
		require.NoError(r, err)
		require.ElementsMatch(r, []dispatcher.Lease{
			{ID: named("a", "m1"), At: at}, {ID: named("a", "m2"), At: at}, {ID: named("b", "m2"), At: at},
			{ID: named("c", "m3"), At: c.Leased},
		}, leases)
	}},
	{name: "a repeated outcome without an attempt does not end a later lease", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.mustSettle(one, handBack(c))
		r.pass(time.Millisecond)
		again := r.mustClaim(one, named("a", "m1"))[0]
		refused := death(c, dispatcher.ReasonRefused)
		refused.Attempt = dispatcher.Attempt{}
		r.mustChangeNothing(func() {
			for _, s := range []dispatcher.Settlement{handBack(c), refused} {
				require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, s))
			}
		})
		r.mustSettle(one, success(again))
		r.mustStand(c.ID, dispatcher.StatusDelivered)
	}},
	{name: "a lease of unknown time can be handed back too", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		c.Leased = time.Time{}
		r.mustSettle(one, handBack(c))
		r.mustStand(c.ID, dispatcher.StatusReady)
	}},
}
