package redisq_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// RateCases are about lanes with a rate.
var RateCases = append([]redisqtest.Case{
	{Name: "a rated lane waits between two attempts, and no move checks it earlier", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		r.Publish("a", "m1", "m2", "m3")
		r.Deliver(redisqtest.Named("a", "m1"))
		next := redisqtest.Start.Add(time.Second)
		for _, id := range []string{"m2", "m3"} {
			h := r.Move()
			require.Equal(r, next, h.Due)
			require.Equal(r, -1, h.Weight)
			r.SetNow(next.Add(-time.Microsecond))
			r.Move()
			r.MustClaimNothing(redisqtest.Two)
			r.SetNow(next)
			require.Equal(r, 0, r.Move().Weight)
			r.Deliver(redisqtest.Named("a", id))
			next = next.Add(time.Second)
		}
		require.Zero(r, r.Move().Due, "nothing waits any more")
	}},
	{Name: "twenty a second are twenty in each second", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(50*time.Millisecond))
		r.PublishMany("a", 100)
		require.Equal(r, []int{20, 20, 20}, attemptsBySecond(r, "a", 3, 0))
	}},
	{Name: "a late timer does not lower a rate", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(10*time.Millisecond))
		r.PublishMany("a", 400)
		got := attemptsBySecond(r, "a", 3, 45*time.Millisecond)
		for _, n := range got[1:] {
			require.InDelta(r, 100, n, 5, "%v", got)
		}
	}},
	{Name: "an unused rate is not saved up", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(20*time.Millisecond))
		for range 8 {
			r.Succeed("a")
			r.Pass(time.Minute)
		}
		r.PublishMany("a", 20)
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
	}},
	{Name: "a rated lane in use catches up on 50 ms, and an idle one starts again", Run: func(r *redisqtest.Rig) {
		for range 8 {
			r.Succeed("a")
		}
		r.Limit("a", redisqtest.Every(20*time.Millisecond))
		for _, c := range []struct {
			idle time.Duration
			want int
		}{{20 * time.Millisecond, 1}, {40 * time.Millisecond, 2}, {time.Second, 3}, {1021 * time.Millisecond, 1}} {
			r.Succeed("a")
			r.Pass(c.idle)
			r.PublishMany("a", 8)
			claimed := r.Claim(redisqtest.One, 64)
			require.Len(r, claimed, c.want, "%s", c.idle)
			for ; len(claimed) > 0; claimed = r.Claim(redisqtest.One, 64) {
				for _, c := range claimed {
					r.MustSettle(redisqtest.One, redisqtest.Success(c))
				}
				r.Pass(20 * time.Millisecond)
				r.Move()
			}
			require.Zero(r, r.LaneState("a").Waiting)
			r.Pass(time.Minute)
		}
	}},
	{Name: "a turn takes one delivery for each token", Run: func(r *redisqtest.Rig) {
		for range 20 {
			r.Succeed("a")
		}
		r.Limit("a", redisqtest.Every(5*time.Millisecond))
		r.Succeed("a")
		r.Pass(200 * time.Millisecond)
		r.PublishMany("a", 20)
		require.Len(r, r.Claim(redisqtest.One, 64), 11, "two turns")
		r.MustClaimNothing(redisqtest.Two)
		r.Pass(5 * time.Millisecond)
		r.Move()
		require.Len(r, r.Claim(redisqtest.Two, 64), 1)
	}},
	{Name: "a fraction of a ms makes a turn later, never earlier", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(333*time.Microsecond+100*time.Millisecond))
		r.Publish("a", "m1", "m2")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		lane := r.State().Lanes["a"]
		require.Equal(r, redisqtest.Start.Add(100333*time.Microsecond).UnixMicro(), lane.Tat)
		require.Equal(r, redisqtest.Start.Add(101*time.Millisecond).UnixMilli(), lane.Parked)
		require.Equal(r, redisqtest.Start.Add(101*time.Millisecond), r.Move().Due)
	}},
	{Name: "a direct lease takes a token, and needs one", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a")), r.Entry("m2", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[1]))
		r.MustClaimNothing(redisqtest.Two)
		require.Equal(r, "rate", r.Inspect(redisqtest.Named("a", "m2")).WaitingFor)
		r.Pass(time.Second)
		r.Move()
		r.Deliver(redisqtest.Named("a", "m2"))
		got = r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m3", redisqtest.To("a")))
		require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[0]), "the token was taken by the claim")
	}},
	{Name: "a rate applies to all instances together", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		r.PublishMany("a", 3)
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
		r.MustClaimNothing(redisqtest.Two)
		require.Empty(r, redisqtest.Leased(r.ScheduleFor(redisqtest.Two, 512, 64, r.Entry("m1", redisqtest.To("a")))[0]))
	}},
	{Name: "a lane that waits for its rate does not block others", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Hour))
		r.PublishMany("a", 5)
		r.PublishMany("b", 2)
		require.Len(r, r.Claim(redisqtest.One, 64), 3)
		require.Equal(r, -1, r.Move().Weight)
	}},
	{Name: "more messages do not change the time that a rated lane waits for", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		r.PublishMany("a", 2)
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
		before := r.State().Lanes["a"].Parked
		r.Pass(time.Millisecond)
		r.PublishMany("a", 2)
		require.Equal(r, before, r.State().Lanes["a"].Parked)
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a changed rate counts from the time of the old one", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Minute))
		r.PublishMany("a", 3)
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
		r.Limit("a", redisqtest.Every(10*time.Second))
		require.Equal(r, redisqtest.Start.Add(time.Minute), r.Move().Due)
		r.MustClaimNothing(redisqtest.One)
		_, hints := r.LimitAs("a", dispatcher.LaneLimits{}, false)
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 1), hints[0].Weight, "a lane without a rate does not wait")
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
		r.Limit("a", redisqtest.Every(10*time.Second))
		require.Equal(r, redisqtest.Start.Add(time.Minute).UnixMicro(), r.State().Lanes["a"].Tat)
	}},
	{Name: "a rate that is much quicker counts from now", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Minute))
		r.PublishMany("a", 3)
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
		r.Limit("a", redisqtest.Every(time.Millisecond)) // the old time counts as one of another clock
		require.Len(r, r.Claim(redisqtest.One, 1), 1)
	}},
	{Name: "a lane reports the time when its rate allows the next attempt", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		r.PublishMany("a", 2)
		require.Zero(r, r.LaneState("a").Token)
		r.Claim(redisqtest.One, 1)
		require.Equal(r, redisqtest.Start.Add(time.Second), r.LaneState("a").Token)
		r.Pass(time.Minute)
		require.Zero(r, r.LaneState("a").Token)
	}},
}, tokenCases...)

// tokenCases are about the tokens of attempts that were not made.
var tokenCases = []redisqtest.Case{
	{Name: "a delivery that is handed back returns its token", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		r.Publish("a", "m1", "m2")
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.MustSettle(redisqtest.One, redisqtest.HandBack(c))
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"))
		r.MustClaimNothing(redisqtest.Two)
	}},
	{Name: "a delivery that is handed back returns its token even if it was cancelled or delivered before", Run: func(r *redisqtest.Rig) {
		for _, lane := range []dispatcher.Lane{"a", "b"} {
			r.Limit(lane, redisqtest.Every(time.Second))
			c := r.TakeOver(lane, "m1-"+string(lane))
			r.Pass(time.Minute)
			r.Move()
			again := r.MustClaim(redisqtest.Two, c.ID)[0]
			if lane == "a" {
				r.Cancel(c.ID)
			} else {
				r.Settle(redisqtest.One, redisqtest.Success(c))
			}
			require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledEnd}, r.Settle(redisqtest.Two, redisqtest.HandBack(again)))
			mustHaveToken(r, lane)
		}
	}},
	{Name: "an expired delivery returns its token when it is claimed", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Expires(redisqtest.Start)), r.Entry("m2", redisqtest.To("a")))
		r.MustClaimNothing(redisqtest.One)
		r.Deliver(redisqtest.Named("a", "m2"))
		mustHaveNoToken(r, "a")
	}},
	{Name: "a delivery without a record returns its token when it is claimed", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		r.Publish("a", "m1", "m2")
		r.Lose("m1")
		r.MustClaimNothing(redisqtest.One)
		r.Deliver(redisqtest.Named("a", "m2"))
		mustHaveNoToken(r, "a")
	}},
	{Name: "a delivery that is settled without an attempt returns its token", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		r.MustSettle(redisqtest.One, redisqtest.Refusal(r.TakeNew("a")))
		mustHaveToken(r, "a")
	}},
	{Name: "an attempt has used its token, whatever its result", Run: func(r *redisqtest.Rig) {
		for i, outcome := range []func(dispatcher.Claimed) dispatcher.Settlement{
			redisqtest.Success,
			func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Failure(c, time.Hour) },
			func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Silence(c, time.Hour) },
			func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Death(c, dispatcher.ReasonGone) },
		} {
			lane := redisqtest.ManyLanes(4)[i]
			r.Limit(lane, redisqtest.Every(time.Second))
			r.MustSettle(redisqtest.One, outcome(r.TakeNew(lane)))
			mustHaveNoToken(r, lane)
		}
	}},
	{Name: "the leases of a dead instance return no tokens", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		r.Publish("a", "m1")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.Reap(redisqtest.One)
		r.MustClaimNothing(redisqtest.Two)
		mustHaveNoToken(r, "a")
	}},
	{Name: "a delivery that was claimed before there was a rate has no token to return", Run: func(r *redisqtest.Rig) {
		c := r.TakeNew("a")
		r.Limit("a", redisqtest.Every(time.Hour))
		r.MustSettle(redisqtest.One, redisqtest.HandBack(c))
		require.GreaterOrEqual(r, r.State().Lanes["a"].Tat, int64(0))
		r.MustClaim(redisqtest.One, c.ID)
	}},
	{Name: "a delivery that is handed back after the rate is gone returns no token", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Every(time.Second))
		c := r.TakeNew("a")
		tat := r.State().Lanes["a"].Tat
		r.Limit("a")
		r.MustSettle(redisqtest.One, redisqtest.HandBack(c))
		require.Equal(r, tat, r.State().Lanes["a"].Tat)
	}},
}

// attemptsBySecond delivers one lane's messages for some seconds. It claims late
// after each time that a hint reports. It returns the number of attempts that
// began in each second.
func attemptsBySecond(r *redisqtest.Rig, lane dispatcher.Lane, seconds int, late time.Duration) []int {
	r.Helper()
	counts := make([]int, seconds)
	for looks := 0; ; looks++ {
		require.Less(r, looks, 1000, "it polls again and again")
		h := r.Move()
		for h.Weight >= 0 {
			claimed := r.Claim(redisqtest.One, 64)
			require.NotEmpty(r, claimed)
			for _, c := range claimed {
				counts[int(r.Now.Sub(redisqtest.Start)/time.Second)]++
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			}
			h = r.Move()
		}
		require.True(r, h.Due.After(r.Now), "%s has nothing ready, or is polled too early", lane)
		if h.Due.Add(late).Sub(redisqtest.Start) >= time.Duration(seconds)*time.Second {
			return counts
		}
		r.SetNow(h.Due.Add(late))
	}
}

// mustHaveToken fails the case unless the rate of an empty lane allows an attempt now.
func mustHaveToken(r *redisqtest.Rig, lane dispatcher.Lane) {
	r.Helper()
	got := r.ScheduleFor(redisqtest.Two, 512, 64, r.Entry(r.NewID(), redisqtest.To(lane)))
	require.Equal(r, redisqtest.To(lane), redisqtest.Leased(got[0]), "its token was not returned")
}

// mustHaveNoToken fails the case if a lane's rate allows an attempt now.
func mustHaveNoToken(r *redisqtest.Rig, lane dispatcher.Lane) {
	r.Helper()
	got := r.ScheduleFor(redisqtest.Two, 512, 64, r.Entry(r.NewID(), redisqtest.To(lane)))
	require.Empty(r, redisqtest.Leased(got[0]), "it has a token more than its rate allows")
	r.MustClaimNothing(redisqtest.Two)
}
