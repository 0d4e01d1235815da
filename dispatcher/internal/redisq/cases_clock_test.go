package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// ClockCases are about a store whose clock was ahead and is right now. Another node
// took over, or an operator set the clock.
var ClockCases = []redisqtest.Case{
	{Name: "a rate's time counts as now if it was set by another clock", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(50*time.Millisecond))
		ahead(r, time.Hour, func() { spendRate(r, "a") })
		require.Zero(r, r.LaneState("a").Token)
		mustSeeNothing(r)
		trimHint(r)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.MustClaimNothing(redisqtest.Two)
		require.Equal(r, r.Now.Add(50*time.Millisecond).UnixMicro(), r.State().Lanes["a"].Tat, "from now on")
	}},
	{Name: "any call that changes a lane corrects a time that another clock set", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(50*time.Millisecond))
		ahead(r, time.Hour, func() { spendRate(r, "a") })
		r.Publish("a", "m9")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
	}},
	{Name: "a lane waits for a rate's time if an attempt can have set it", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Hour))
		spendRate(r, "a")
		until := r.Now.Add(time.Hour)
		r.Pass(-5 * time.Hour)
		require.Equal(r, until, r.LaneState("a").Token)
		r.Trim(redisqtest.KeepAll)
		r.Publish("a", "m9")
		r.MustClaimNothing(redisqtest.Two)
		r.SetNow(until)
		r.Move()
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
	}},
	{Name: "a resume forgets a rate's time", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Hour))
		spendRate(r, "a")
		r.LimitAs("a", dispatcher.LaneLimits{Interval: time.Hour}, true)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a pause of more than a day was set by another clock", Run: func(r *redisqtest.Rig) {
		ahead(r, 48*time.Hour, func() { pauseLane(r, "a", time.Hour) })
		require.LessOrEqual(r, r.LaneState("a").Until, r.Now)
		mustSeeNothing(r)
		trimHint(r)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
	}},
	{Name: "a lane waits for a pause of a day", Run: func(r *redisqtest.Rig) {
		pauseLane(r, "a", 24*time.Hour)
		until := r.Now.Add(24 * time.Hour)
		r.Pass(-50 * time.Second) // the most that the clock of the next node may be behind
		r.Trim(redisqtest.KeepAll)
		r.Publish("a", "m9")
		require.Equal(r, until, r.LaneState("a").Until)
		r.MustClaimNothing(redisqtest.One)
		r.SetNow(until)
		r.Move()
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
	}},
	{Name: "a breaker that another clock opened lets a probe through", Setup: redisqtest.Setup{Breaker: 1}, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m0", "m1", "m2")
		ahead(r, 48*time.Hour, func() {
			for _, c := range r.Claim(redisqtest.One, 1) {
				s := redisqtest.Silence(c, time.Hour)
				s.Blame = true
				r.MustSettle(redisqtest.One, s)
			}
		})
		trimHint(r)
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a ready list ends even if another clock set its time", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Publish(redisqtest.EpOne, "m1")
		ahead(r, time.Hour, func() { r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled)) })
		trimHint(r)
		r.Move()
		r.MustStand(redisqtest.Named(redisqtest.EpOne, "m1"), dispatcher.StatusDead)
	}},
	{Name: "each call corrects some of many lanes", Run: func(r *redisqtest.Rig) {
		const many = 200
		ahead(r, 48*time.Hour, func() {
			for i := range many {
				lane := dispatcher.Lane(fmt.Sprintf("l%d", i))
				pauseLane(r, lane, time.Hour, fmt.Sprintf("x%d", i), fmt.Sprintf("y%d", i))
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
			r.Trim(redisqtest.KeepAll)
			r.Pass(7 * time.Millisecond)
		}
	}},
}

// ahead runs do while the clock is d ahead.
func ahead(r *redisqtest.Rig, d time.Duration, do func()) {
	r.Helper()
	r.Pass(d)
	do()
	r.Pass(-d)
}

// spendRate publishes m0 and m1 to a lane and claims m0, so that m1 waits for
// the rate.
func spendRate(r *redisqtest.Rig, lane dispatcher.Lane) {
	r.Helper()
	r.Publish(lane, "m0", "m1")
	r.MustSettle(redisqtest.One, redisqtest.Success(r.MustClaim(redisqtest.One, redisqtest.Named(lane, "m0"))[0]))
}

// pauseLane settles an attempt whose receiver asks for a pause. Other messages of
// the lane wait.
func pauseLane(r *redisqtest.Rig, lane dispatcher.Lane, d time.Duration, ids ...string) {
	r.Helper()
	if len(ids) == 0 {
		ids = []string{"m0", "m1"}
	}
	r.Publish(lane, ids...)
	r.MustSettle(redisqtest.One, redisqtest.Paused(r.MustClaim(redisqtest.One, redisqtest.Named(lane, ids[0]))[0], 30*24*time.Hour, d))
}

// mustSeeNothing calls Move as a mover does when a delivery is due. It fails the case
// if the hint that Move returns reports a lane.
func mustSeeNothing(r *redisqtest.Rig) {
	r.Helper()
	require.Negative(r, r.Move().Weight)
}

// trimHint trims once. The hint that Trim returns must report work that is due now.
func trimHint(r *redisqtest.Rig) {
	r.Helper()
	got, err := r.Queue.Trim(r.Ctx, redisqtest.One, r.All(), redisqtest.KeepAll, false)
	require.NoError(r, err)
	require.Len(r, got.Hints, 1, "a trim returns its hint, because the caller does not receive its own hints")
	h := got.Hints[0]
	require.True(r, h.Weight >= 0 || !h.Due.IsZero() && !h.Due.After(r.Now), "%+v", h)
	r.MustBeCurrent(got.Hints)
}
