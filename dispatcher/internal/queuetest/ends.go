package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// endCases are about the deaths that answers tell, and the counts of ends,
// which are kept for ever.
var endCases = []testCase{
	{name: "a settle tells the death that it caused", run: func(r *rig) {
		r.publish("a", "m1", "m2", "m3")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], 0))
		r.move()
		c := r.mustClaim(one, named("a", "m2"), named("a", "m3"))
		r.mustTellDeaths()
		r.settle(one, death(c[0], dispatcher.ReasonGone), success(c[1]))
		r.mustTellDeaths(dispatcher.Death{ID: c[0].ID, Reason: dispatcher.ReasonGone, Attempts: 1})
		r.mustSettle(one, death(r.mustClaim(one, named("a", "m1"))[0], dispatcher.ReasonExhausted))
		r.mustTellDeaths(dispatcher.Death{ID: named("a", "m1"), Reason: dispatcher.ReasonExhausted, Attempts: 2})
	}},
	{name: "no death is told of a delivery that was cancelled meanwhile", run: func(r *rig) {
		r.publish("a", "m1")
		c := r.mustClaim(one, named("a", "m1"))[0]
		r.cancel(c.ID)
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledEnd}, r.settle(one, death(c, dispatcher.ReasonGone)))
		r.mustTellDeaths()
		require.Empty(r, r.stats().EverDead)
		require.Equal(r, int64(1), r.stats().Cancelled)
	}},
	{name: "a delivery whose lane was disabled meanwhile dies of that", run: func(r *rig) {
		r.limit(epOne)
		r.publish(epOne, "m1")
		c := r.mustClaim(one, named(epOne, "m1"))[0]
		r.limit(epOne, held(dispatcher.HeldDisabled))
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledEnd}, r.settle(one, failure(c, time.Hour)))
		r.mustTellDeaths(dispatcher.Death{ID: c.ID, Reason: dispatcher.ReasonDisabled, Attempts: 1})
	}},
	{name: "the claim that finds an expired delivery tells its death", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), expires(start.Add(time.Minute))))
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], time.Hour))
		r.pass(time.Hour)
		r.move()
		r.mustTellDeaths()
		r.mustClaimNothing(one)
		r.mustTellDeaths(dispatcher.Death{ID: named("a", "m1"), Reason: dispatcher.ReasonExpired, Attempts: 1})
	}},
	{name: "any call that ends a delivery of a disabled endpoint tells its death", run: func(r *rig) {
		r.limit(epOne)
		r.schedule(
			r.entry("later", to(epOne), delay(time.Hour)), r.entry("soon", to(epOne), delay(time.Minute)),
			r.entry("ready", to(epOne)), r.entry("held", to(epOne)),
		)
		r.mustClaim(two, named(epOne, "ready"))
		r.limit(epOne, held(dispatcher.HeldDisabled))
		disabled := func(message string) dispatcher.Death {
			return dispatcher.Death{ID: named(epOne, message), Reason: dispatcher.ReasonDisabled}
		}
		r.publish(epOne, "new")
		r.mustTellDeaths(disabled("new"))
		r.move()
		r.mustTellDeaths(disabled("held"))
		r.reap(two)
		r.mustTellDeaths(disabled("ready"))
		r.pass(time.Minute)
		r.move()
		r.mustTellDeaths(disabled("soon"))
		_, _, hints, err := r.Queue.Sweep(r.ctx, one, epOne, "")
		require.NoError(r, err)
		r.mustBeCurrent(hints)
		r.mustTellDeaths(disabled("later"))
	}},
	{name: "deliveries behind a cancelled one die with their lane, and are told", run: func(r *rig) {
		r.limit(epOne)
		r.publishKeyed(epOne, "k", "m1", "m2", "m3")
		r.limit(epOne, held(dispatcher.HeldDisabled))
		r.cancel(named(epOne, "m2"))
		r.mustTellDeaths()
		r.move()
		r.mustTellDeaths(
			dispatcher.Death{ID: named(epOne, "m1"), Reason: dispatcher.ReasonDisabled},
			dispatcher.Death{ID: named(epOne, "m3"), Reason: dispatcher.ReasonDisabled},
		)
	}},
	{name: "a cancel of the first tells the deaths of those behind it", run: func(r *rig) {
		r.limit(epOne)
		r.schedule(r.entry("m1", to(epOne), delay(time.Hour), keyed("k")), r.entry("m2", to(epOne), keyed("k")))
		r.limit(epOne, held(dispatcher.HeldDisabled))
		r.cancel(named(epOne, "m1"))
		r.mustTellDeaths(dispatcher.Death{ID: named(epOne, "m2"), Reason: dispatcher.ReasonDisabled})
	}},
	{name: "a delivery to a full lane dies, and is told", setup: Setup{MaxWaiting: 1}, run: func(r *rig) {
		r.publish("a", "m1")
		e := r.entry("m2", to("a", "b"))
		e.Fan = true
		r.schedule(e)
		r.mustTellDeaths(dispatcher.Death{ID: named("a", "m2"), Reason: dispatcher.ReasonOverflow})
	}},
	{name: "a delivery that killed its holders has as many attempts", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustSettle(one, failure(r.mustClaim(one, named("a", "m1"))[0], 0))
		r.move()
		for n := range 3 {
			r.mustTellDeaths()
			r.mustClaim(fmt.Sprint("victim", n), named("a", "m1"))
			r.reap(fmt.Sprint("victim", n))
		}
		r.mustTellDeaths(dispatcher.Death{ID: named("a", "m1"), Reason: dispatcher.ReasonPoison, Attempts: 4})
	}},
	{name: "a death is told once, though its outcome is settled twice", run: func(r *rig) {
		r.publish("a", "m1")
		s := death(r.mustClaim(one, named("a", "m1"))[0], dispatcher.ReasonRefused)
		r.mustSettle(one, s)
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledBefore}, r.settle(one, s))
		r.mustTellDeaths(dispatcher.Death{ID: s.ID, Reason: dispatcher.ReasonRefused, Attempts: 1})
		require.Equal(r, map[dispatcher.DeadReason]int64{dispatcher.ReasonRefused: 1}, r.stats().EverDead)
		r.pass(time.Millisecond)
		r.reap(one)
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledBefore}, r.settle(one, s), "it was before it was declared dead")
	}},
	{name: "a death that the next holder settled is late for the holder before", run: func(r *rig) {
		r.publish("a", "m1", "m2")
		c := r.mustClaim(one, named("a", "m1"), named("a", "m2"))
		r.reap(one)
		r.mustClaim(two, named("a", "m1"), named("a", "m2"))
		r.settle(two, death(c[0], dispatcher.ReasonGone), success(c[1]))
		late := []dispatcher.Settled{dispatcher.SettledLate, dispatcher.SettledLate}
		require.Equal(r, late, r.settle(one, death(c[0], dispatcher.ReasonGone), death(c[1], dispatcher.ReasonGone)))
	}},
	{name: "a repeated death of a cancelled delivery is late", run: func(r *rig) {
		r.publish("a", "m1")
		s := death(r.mustClaim(one, named("a", "m1"))[0], dispatcher.ReasonGone)
		r.cancel(s.ID)
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledEnd}, r.settle(one, s))
		require.Equal(r, []dispatcher.Settled{dispatcher.SettledLate}, r.settle(one, s))
	}},
	{name: "an end stays counted, whatever happens to the delivery later", setup: Setup{Partitions: 4}, run: func(r *rig) {
		for i, lane := range manyLanes(12) {
			r.publish(lane, fmt.Sprint("m", i))
		}
		var batch []dispatcher.Settlement
		for _, c := range r.claim(one, 64) {
			batch = append(batch, death(c, dispatcher.ReasonGone))
		}
		require.Len(r, batch, 12)
		r.cancel(batch[11].ID)
		r.settle(one, batch...)
		told := func() {
			require.Equal(r, map[dispatcher.DeadReason]int64{dispatcher.ReasonGone: 11}, r.stats().EverDead)
			require.Equal(r, int64(1), r.stats().Cancelled)
		}
		told()
		r.retry(batch[0].ID, batch[11].ID)
		require.Equal(r, int64(10), r.stats().Dead[dispatcher.ReasonGone])
		told()
		r.pass(time.Hour)
		r.trim(keepNothing)
		require.Empty(r, r.stats().Dead)
		told()
	}},
}

// mustTellDeaths fails the case unless the answers since its last call told
// exactly these deaths, in any order.
func (r *rig) mustTellDeaths(want ...dispatcher.Death) {
	r.Helper()
	require.ElementsMatch(r, want, r.died)
	r.died = nil
}
