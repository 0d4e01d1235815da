package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// clockCases are about a clock that was ahead. A node took over whose clock is
// right, or somebody set the clock.
var clockCases = []testCase{
	{name: "a rate's time that another clock told counts as now", run: func(r *rig) {
		r.limit("a", every(50*time.Millisecond))
		r.ahead(time.Hour, func() { r.spendRate("a") })
		require.Zero(r, r.laneState("a").Token)
		r.mustSeeNothing()
		r.trimHint()
		r.mustClaim(one, named("a", "m1"))
		r.mustClaimNothing(two)
		require.Equal(r, r.now.Add(50*time.Millisecond).UnixMicro(), r.State().Lanes["a"].Tat, "from now on")
	}},
	{name: "any call that changes a lane corrects a time of another clock", run: func(r *rig) {
		r.limit("a", every(50*time.Millisecond))
		r.ahead(time.Hour, func() { r.spendRate("a") })
		r.publish("a", "m9")
		r.mustClaim(one, named("a", "m1"))
	}},
	{name: "a rate's time that an attempt can have told is waited for", run: func(r *rig) {
		r.limit("a", every(time.Hour))
		r.spendRate("a")
		until := r.now.Add(time.Hour)
		r.pass(-5 * time.Hour)
		require.Equal(r, until, r.laneState("a").Token)
		r.trim(keepAll)
		r.publish("a", "m9")
		r.mustClaimNothing(two)
		r.setClock(until)
		r.move()
		r.mustClaim(one, named("a", "m1"))
	}},
	{name: "a resume forgets a rate's time", run: func(r *rig) {
		r.limit("a", every(time.Hour))
		r.spendRate("a")
		r.limitAs("a", dispatcher.LaneLimits{Interval: time.Hour}, true)
		r.mustClaim(one, named("a", "m1"))
		r.mustClaimNothing(one)
	}},
	{name: "a pause of more than a day was told by another clock", run: func(r *rig) {
		r.ahead(48*time.Hour, func() { r.pauseLane("a", time.Hour) })
		require.LessOrEqual(r, r.laneState("a").Until, r.now)
		r.mustSeeNothing()
		r.trimHint()
		r.mustClaim(one, named("a", "m1"))
	}},
	{name: "a pause of a day is waited for", run: func(r *rig) {
		r.pauseLane("a", 24*time.Hour)
		until := r.now.Add(24 * time.Hour)
		r.pass(-50 * time.Second) // as far as the clock of a node that takes over may be behind
		r.trim(keepAll)
		r.publish("a", "m9")
		require.Equal(r, until, r.laneState("a").Until)
		r.mustClaimNothing(one)
		r.setClock(until)
		r.move()
		r.mustClaim(one, named("a", "m1"))
	}},
	{name: "a breaker that another clock opened lets a probe go", setup: Setup{Breaker: 1}, run: func(r *rig) {
		r.publish("a", "m0", "m1", "m2")
		r.ahead(48*time.Hour, func() {
			for _, c := range r.claim(one, 1) {
				s := silence(c, time.Hour)
				s.Blame = true
				r.mustSettle(one, s)
			}
		})
		r.trimHint()
		r.mustClaim(one, named("a", "m1"))
		r.mustClaimNothing(one)
	}},
	{name: "a ready list whose end another clock had set is ended", run: func(r *rig) {
		r.limit(epOne)
		r.publish(epOne, "m1")
		r.ahead(time.Hour, func() { r.limit(epOne, held(dispatcher.HeldDisabled)) })
		r.trimHint()
		r.move()
		r.mustStand(named(epOne, "m1"), dispatcher.StatusDead)
	}},
	{name: "many lanes are corrected, some in each call", run: func(r *rig) {
		const many = 200
		r.ahead(48*time.Hour, func() {
			for i := range many {
				lane := dispatcher.Lane(fmt.Sprintf("l%d", i))
				r.pauseLane(lane, time.Hour, fmt.Sprintf("x%d", i), fmt.Sprintf("y%d", i))
			}
		})
		for trims := 0; ; trims++ {
			require.Less(r, trims, 1000)
			left := 0
			for _, l := range r.State().Lanes {
				if !l.Listed {
					left++
				}
			}
			if left == 0 {
				return
			}
			r.trim(keepAll)
			r.pass(7 * time.Millisecond)
		}
	}},
}

// ahead calls do while the clock is d ahead.
func (r *rig) ahead(d time.Duration, do func()) {
	r.Helper()
	r.pass(d)
	do()
	r.pass(-d)
}

// spendRate publishes m0 and m1 to a lane and claims m0, so that m1 waits for
// the rate.
func (r *rig) spendRate(lane dispatcher.Lane) {
	r.Helper()
	r.publish(lane, "m0", "m1")
	r.mustSettle(one, success(r.mustClaim(one, named(lane, "m0"))[0]))
}

// pauseLane has a lane's receiver ask for a pause while other messages wait.
func (r *rig) pauseLane(lane dispatcher.Lane, d time.Duration, ids ...string) {
	r.Helper()
	if len(ids) == 0 {
		ids = []string{"m0", "m1"}
	}
	r.publish(lane, ids...)
	r.mustSettle(one, paused(r.mustClaim(one, named(lane, ids[0]))[0], 30*24*time.Hour, d))
}

// mustSeeNothing calls move, as for a delivery that is due. It fails the case
// if the hint tells of a lane then.
func (r *rig) mustSeeNothing() {
	r.Helper()
	require.Negative(r, r.move().Weight)
}

// trimHint trims once. The hint must tell that something is due now.
func (r *rig) trimHint() {
	r.Helper()
	got, err := r.Queue.Trim(r.ctx, one, r.all(), keepAll, false)
	require.NoError(r, err)
	require.Len(r, got.Hints, 1, "who trims is told, since it does not hear its own hint")
	h := got.Hints[0]
	require.True(r, h.Weight >= 0 || !h.Due.IsZero() && !h.Due.After(r.now), "%+v", h)
	r.mustBeCurrent(got.Hints)
}
