package redisq_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// cutOff hands a claim back because the instance's own network failed.
func cutOff(c dispatcher.Claimed, wait time.Duration) dispatcher.Settlement {
	s := redisqtest.HandBack(c)
	s.Stalled, s.Pause = dispatcher.WhyEgress, wait
	return s
}

func endWaits(r *redisqtest.Rig, lanes ...dispatcher.Lane) {
	r.Helper()
	hints, err := r.Queue.EndWaits(r.Ctx, redisqtest.Two, lanes)
	require.NoError(r, err)
	r.MustBeCurrent(hints)
}

// EgressCases are about lanes that wait for the instances' own network.
var EgressCases = []redisqtest.Case{
	{Name: "a lane that waits for our own network reports it and uses up no retry", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		window := r.LaneState("a").Window
		r.Publish("a", "m1", "m2")
		r.MustSettle(redisqtest.One, cutOff(mustClaimIn(r, "a", "m1"), 2*time.Second))
		mustWaitFor(r, "egress", "a", "m1", "m2")
		d := r.Inspect(redisqtest.Named("a", "m1"))
		require.Equal(r, r.Later(2*time.Second), d.WaitingUntil)
		require.Zero(r, d.Attempts)
		require.Empty(r, d.History)
		l := r.LaneState("a")
		state, why := l.Standing()
		require.Equal(r, dispatcher.StateLimited, state)
		require.Equal(r, dispatcher.WhyEgress, why)
		require.Zero(r, l.Fails)
		require.Zero(r, l.Failing)
		stats, err := r.Queue.Stats(r.Ctx)
		require.NoError(r, err)
		require.EqualValues(r, 2, stats.Blocked[dispatcher.WhyEgress])
		r.MustClaimNothing(redisqtest.One)
		r.Pass(2 * time.Second)
		r.Move()
		r.Deliver(redisqtest.Named("a", "m1"))
		require.Equal(r, window+1, r.LaneState("a").Window)
	}},
	{Name: "a lane that waits for our network has one attempt at a time and reports its wait to each instance", Run: func(r *redisqtest.Rig) {
		began := r.Now
		r.Publish("a", "m1", "m2", "m3")
		r.MustSettle(redisqtest.One, cutOff(mustClaimIn(r, "a", "m1"), time.Second))
		for _, by := range []string{redisqtest.One, redisqtest.Two} {
			last := r.State().Lanes["a"].EgressWait
			r.Pass(time.Duration(last) * time.Millisecond)
			r.Move()
			got := r.Claim(by, 10)
			require.Equal(r, redisqtest.IDs("a", "m1"), redisqtest.ClaimedIDs(got))
			require.Equal(r, dispatcher.EgressWait{Since: began, Wait: time.Duration(last) * time.Millisecond}, got[0].Egress)
			mustWaitFor(r, "egress", "a", "m2", "m3")
			r.MustSettle(by, cutOff(got[0], 2*got[0].Egress.Wait))
		}
		r.Pass(4 * time.Second)
		r.Move()
		r.Deliver(redisqtest.Named("a", "m1"))
		for _, c := range r.Claim(redisqtest.One, 2) {
			require.Zero(r, c.Egress)
		}
	}},
	{Name: "another outcome ends the wait for our own network at once", Run: func(r *redisqtest.Rig) {
		for i, end := range []func(dispatcher.Claimed) dispatcher.Settlement{
			redisqtest.Success,
			func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Failure(c, time.Hour) },
			func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Death(c, dispatcher.ReasonRefused) },
		} {
			lane := dispatcher.Lane("abc"[i : i+1])
			r.Publish(lane, string(lane)+"1", string(lane)+"2", string(lane)+"3")
			got := r.Claim(redisqtest.One, 2)
			require.Len(r, got, 2)
			r.MustSettle(redisqtest.One, cutOff(got[0], 15*time.Second))
			r.MustSettle(redisqtest.One, end(got[1]))
			for _, c := range r.Claim(redisqtest.One, 2) {
				require.Equal(r, lane, c.ID.Lane)
				require.Zero(r, c.Egress)
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			}
		}
		r.Publish("d", "d1")
		r.MustSettle(redisqtest.One, cutOff(mustClaimIn(r, "d", "d1"), 15*time.Second))
		_, err := r.Queue.Works(r.Ctx, redisqtest.One, "d")
		require.NoError(r, err)
		r.Deliver(redisqtest.Named("d", "d1"))
	}},
	{Name: "a delivery that is handed back for another reason keeps the wait for our own network", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		got := r.Claim(redisqtest.One, 2)
		r.MustSettle(redisqtest.One, cutOff(got[0], time.Second))
		r.MustSettle(redisqtest.One, redisqtest.HandBack(got[1]))
		r.Pass(time.Second)
		r.Move()
		require.NotZero(r, r.Claim(redisqtest.One, 2)[0].Egress)
	}},
	{Name: "the failure counts after too long a wait, and the lane continues to wait for our own network", Setup: redisqtest.Setup{Breaker: 2, BreakerWait: time.Minute}, Run: func(r *redisqtest.Rig) {
		began := r.Now
		r.Publish("a", "m1", "m2")
		r.MustSettle(redisqtest.One, cutOff(mustClaimIn(r, "a", "m1"), 15*time.Second))
		r.Pass(time.Hour)
		r.Move()
		s := redisqtest.Blamed(redisqtest.Silence(mustClaimIn(r, "a", "m1"), time.Minute))
		s.Stalled = dispatcher.WhyEgress
		r.MustSettle(redisqtest.One, s)
		require.Equal(r, 1, r.Inspect(redisqtest.Named("a", "m1")).Attempts)
		require.Equal(r, 1, r.LaneState("a").Fails)
		next := mustClaimIn(r, "a", "m2")
		require.Equal(r, dispatcher.EgressWait{Since: began, Wait: 15 * time.Second}, next.Egress)
		s = redisqtest.Blamed(redisqtest.Silence(next, time.Hour))
		s.Stalled = dispatcher.WhyEgress
		r.MustSettle(redisqtest.One, s)
		r.Resume("a") // closes its breaker
		got := r.ScheduleFor(redisqtest.Two, 10, 10, r.Entry("m3", redisqtest.To("a")))
		require.Empty(r, redisqtest.Leased(got[0]), "only a claim reports the wait")
		require.NotZero(r, mustClaimIn(r, "a", "m3").Egress)
	}},
	{Name: "the end of the waits for our own network ends no other wait", Setup: redisqtest.Setup{Breaker: 1, BreakerWait: time.Minute}, Run: func(r *redisqtest.Rig) {
		for _, lane := range []dispatcher.Lane{"a", "b", "c", "d"} {
			r.Publish(lane, string(lane)+"1", string(lane)+"2")
		}
		began := r.Now
		r.MustSettle(redisqtest.One, cutOff(mustClaimIn(r, "a", "a1"), 15*time.Second))
		r.MustSettle(redisqtest.One, redisqtest.Paused(mustClaimIn(r, "b", "b1"), time.Hour, time.Minute))
		r.MustSettle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(mustClaimIn(r, "c", "c1"), time.Hour)))
		sealed := redisqtest.HandBack(mustClaimIn(r, "d", "d1"))
		sealed.Stalled, sealed.Pause = dispatcher.WhySealed, time.Minute
		r.MustSettle(redisqtest.One, sealed)
		endWaits(r, "a", "b", "c", "d", "unknown")
		require.NotContains(r, r.State().Lanes, dispatcher.Lane("unknown"))
		got := r.Claim(redisqtest.One, 10)
		require.Equal(r, redisqtest.IDs("a", "a1"), redisqtest.ClaimedIDs(got))
		require.Equal(r, dispatcher.EgressWait{Since: began, Wait: 15 * time.Second}, got[0].Egress, "no attempt succeeded yet")
	}},
}
