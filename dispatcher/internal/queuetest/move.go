package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

var moveCases = []testCase{
	{name: "a delivery is ready at its time and not a microsecond before", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Second)))
		r.setClock(start.Add(time.Second - time.Microsecond))
		h := r.move()
		require.Equal(r, start.Add(time.Second), h.Due)
		require.Equal(r, -1, h.Weight)
		r.mustStand(named("a", "m1"), dispatcher.StatusScheduled)
		r.mustClaimNothing(one)

		r.setClock(start.Add(time.Second))
		h = r.move()
		require.Zero(r, h.Due)
		require.Equal(r, r.setup.weight(4, 0), h.Weight, "a lane never seen weighs as four in flight")
		r.mustStand(named("a", "m1"), dispatcher.StatusReady)
		claimed := r.mustClaim(one, named("a", "m1"))
		require.Equal(r, start.Add(time.Second), claimed[0].Due)
	}},
	{name: "a fraction of a ms at publishing makes it later", run: func(r *rig) {
		r.pass(700 * time.Microsecond)
		r.schedule(r.entry("m1", to("a"), delay(5*time.Millisecond)))
		r.setClock(start.Add(6*time.Millisecond - time.Microsecond))
		r.move()
		r.mustClaimNothing(one)
		r.setClock(start.Add(6 * time.Millisecond))
		r.move()
		r.mustClaim(one, named("a", "m1"))
	}},
	{name: "what is due earlier comes first", run: func(r *rig) {
		r.schedule(
			r.entry("m1", to("a"), delay(3*time.Second)),
			r.entry("m2", to("a"), delay(1*time.Second)),
			r.entry("m3", to("a"), delay(2*time.Second)),
		)
		r.pass(time.Minute)
		r.move()
		require.Equal(r, ids("a", "m2", "m3", "m1"), r.State().Ready["a"])
	}},
	{name: "a delivery that becomes ready waits behind those that are", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Second)))
		r.publish("a", "m2")
		r.pass(time.Minute)
		r.move()
		require.Equal(r, ids("a", "m2", "m1"), r.State().Ready["a"])
	}},
	{name: "a lane that gets more work keeps its turn", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(3*time.Second)), r.entry("m2", to("a"), delay(4*time.Second)))
		r.pass(3 * time.Second)
		r.move()
		turn := r.State().Lanes["a"].Turn
		r.pass(time.Second)
		r.move()
		r.publish("a", "m3")
		require.Equal(r, turn, r.State().Lanes["a"].Turn)
		r.publish("b", "m4")
		require.Equal(r, ids("a", "m1"), claimedIDs(r.claim(one, 1)))
	}},
	{name: "one call moves a batch, and its hint tells of the rest", run: func(r *rig) {
		const n = 1000
		batch := make([]dispatcher.Entry, n)
		for i := range batch {
			batch[i] = r.entry(fmt.Sprintf("m%04d", i), to("a"), delay(time.Second))
		}
		r.schedule(batch...)
		r.pass(time.Second)
		for calls := 1; ; calls++ {
			h := r.move()
			if h.Due.IsZero() {
				break
			}
			require.Equal(r, start.Add(time.Second), h.Due)
			require.LessOrEqual(r, calls, n, "it goes on moving")
		}
		require.Len(r, r.State().Ready["a"], n)
	}},
	{name: "nothing due changes nothing", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Second)))
		r.mustChangeNothing(func() { r.move() })
	}},
	{name: "moving no partition does nothing", run: func(r *rig) {
		hints, err := r.Queue.Move(r.ctx, one, nil)
		require.NoError(r, err)
		require.Empty(r, hints)
	}},
	{name: "a retrying one is ready at its rung", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], 15*time.Second))
		r.setClock(start.Add(15*time.Second - time.Microsecond))
		require.Equal(r, start.Add(15*time.Second), r.move().Due)
		r.mustStand(named("a", "m1"), dispatcher.StatusRetrying)
		r.setClock(start.Add(15 * time.Second))
		r.move()
		r.mustStand(named("a", "m1"), dispatcher.StatusReady)
	}},
}
