package redisq_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// NextCases are about the time of the next work. A caller that does not run until
// then queries it.
var NextCases = []redisqtest.Case{
	{Name: "nothing is next in an empty queue, or after all deliveries have ended", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		mustComeNext(r, time.Time{})
		r.Succeed("a")
		mustComeNext(r, time.Time{})
		r.Publish("a", "m1")
		r.Claim(redisqtest.One, 64)
		mustComeNext(r, time.Time{}, "a delivery in flight waits for no time")
	}},
	{Name: "a ready or due delivery may be attempted at once", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Minute)), r.Entry("m2", redisqtest.To("b"), redisqtest.Delay(time.Second)))
		mustComeNext(r, r.Later(time.Second))
		r.Pass(time.Second - time.Millisecond)
		mustComeNext(r, r.Later(time.Millisecond))
		r.Pass(time.Millisecond)
		require.Zero(r, upcoming(r).Wait)
		r.Move()
		require.Zero(r, upcoming(r).Wait)
		require.False(r, upcoming(r).At.IsZero())
		r.MustClaim(redisqtest.One, redisqtest.Named("b", "m2"))
		mustComeNext(r, r.Later(59*time.Second))
	}},
	{Name: "the retry is next", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.Claim(redisqtest.One, 1)[0], 15*time.Second))
		mustComeNext(r, r.Later(15*time.Second))
	}},
	{Name: "a delivery in a paused lane is not next until the lane is resumed", Run: func(r *redisqtest.Rig) {
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		r.Publish("a", "m1")
		r.Schedule(r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Minute)))
		mustComeNext(r, time.Time{})
		r.Schedule(r.Entry("m3", redisqtest.To("b"), redisqtest.Delay(time.Hour)))
		mustComeNext(r, r.Later(time.Hour))
		r.Pass(time.Minute)
		r.Move()
		mustComeNext(r, r.Later(59*time.Minute))
		r.Resume("a")
		require.Zero(r, upcoming(r).Wait)
	}},
	{Name: "nothing is next while all lanes are paused", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Every(time.Second))
		r.Publish(redisqtest.EpOne, "m1", "m2")
		r.Claim(redisqtest.One, 64)
		r.Publish("b", "m3")
		r.Schedule(r.Entry("m4", redisqtest.To("c"), redisqtest.Delay(time.Minute)))
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		mustComeNext(r, time.Time{})
		r.Resume(dispatcher.AllLanes)
		require.Zero(r, upcoming(r).Wait)
	}},
	{Name: "a due delivery in a lane with an open breaker is next when the breaker lets it go", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		openBreaker(r, "a")
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Second)))
		until := r.Later(30 * time.Second)
		mustComeNext(r, until, "not yet due")
		r.Pass(2 * time.Second)
		r.Move()
		mustComeNext(r, until, "ready")
		r.Schedule(r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Minute)))
		mustComeNext(r, until)
	}},
	{Name: "a receiver that asked for a pause is next when the pause ends", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.Settle(redisqtest.One, redisqtest.Paused(r.Claim(redisqtest.One, 1)[0], 10*time.Second, time.Minute))
		mustComeNext(r, r.Later(time.Minute), "the other one is ready, and the retry comes before the end of the pause")
	}},
	{Name: "a delivery that waits only for a rate is paced, and next at its time", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Every(2*time.Second))
		r.Publish(redisqtest.EpOne, "m1", "m2")
		r.Schedule(r.Entry("m3", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Second)))
		r.Deliver(redisqtest.Named(redisqtest.EpOne, "m1"))
		require.Equal(r, dispatcher.Upcoming{At: r.Later(2 * time.Second), Wait: 2 * time.Second, Paced: 2 * time.Second}, upcoming(r))
		r.Pass(2 * time.Second)
		r.Move()
		r.Deliver(redisqtest.Named(redisqtest.EpOne, "m2"))
		r.Move()
		require.Equal(r, 2*time.Second, upcoming(r).Paced)
	}},
	{Name: "a lane without anything ready is not paced, but counts from its rate", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Every(time.Minute))
		r.Publish(redisqtest.EpOne, "m1")
		r.Schedule(r.Entry("m2", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Second)))
		r.Deliver(redisqtest.Named(redisqtest.EpOne, "m1"))
		require.Equal(r, dispatcher.Upcoming{At: r.Later(time.Minute), Wait: time.Minute}, upcoming(r))
	}},
	{Name: "an open breaker is not paced", Setup: threeFailures, Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		openBreaker(r, redisqtest.EpOne)
		r.Limit(redisqtest.EpOne, redisqtest.Every(time.Minute))
		r.Publish(redisqtest.EpOne, "m1")
		require.Equal(r, dispatcher.Upcoming{At: r.Later(30 * time.Second), Wait: 30 * time.Second}, upcoming(r))
	}},
	{Name: "a delivery that a disabled endpoint ends is next when it is due", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Minute)))
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		mustComeNext(r, r.Later(time.Minute))
	}},
	{Name: "the time that a query returns may be too early behind many paused deliveries, but never too late", Run: func(r *redisqtest.Rig) {
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		for n := range 200 {
			r.Schedule(r.Entry(r.NewID(), redisqtest.To("a"), redisqtest.Delay(time.Duration(n+1)*time.Second)))
		}
		r.Schedule(r.Entry("last", redisqtest.To("b"), redisqtest.Delay(time.Hour)))
		u := upcoming(r)
		require.Positive(r, u.Wait)
		require.LessOrEqual(r, u.Wait, 200*time.Second)
	}},
	{Name: "a delivery that waits for a consumer is not next, but one that a mover must make ready is", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Pulled, redisqtest.Every(time.Second))
		r.Publish("q_a", "m1")
		r.Publish(redisqtest.EpOne, "m2", "m3")
		mustComeNext(r, time.Time{}, "only consumers may have it")
		r.Schedule(r.Entry("m4", redisqtest.To("q_a"), redisqtest.Delay(time.Minute)))
		mustComeNext(r, r.Later(time.Minute), "a mover makes it ready then")
		r.MustTakeFor(time.Hour, redisqtest.Named(redisqtest.EpOne, "m2"))
		mustComeNext(r, r.Later(time.Second), "its rate allows the next")
		require.Zero(r, upcoming(r).Paced)
		r.Pass(time.Minute)
		require.Zero(r, upcoming(r).Wait)
		r.Move()
		mustComeNext(r, r.Later(59*time.Minute), "the lease ends by itself")
	}},
	{Name: "a lease that ends by itself is next when it ends", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		r.Publish("q_a", "m1", "m2")
		r.MustTakeFor(time.Minute, redisqtest.Named("q_a", "m1"))
		mustComeNext(r, r.Later(time.Minute))
		r.Pass(time.Minute)
		require.Zero(r, upcoming(r).Wait)
		require.False(r, upcoming(r).At.IsZero())
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		require.False(r, upcoming(r).At.IsZero(), "also while nothing may be taken")
		require.Len(r, r.End(redisqtest.One), 1)
		mustComeNext(r, time.Time{}, "an instance has leased it")
	}},
	{Name: "it changes nothing", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		r.Populate()
		r.MustChangeNothing(func() { upcoming(r) })
	}},
}

func upcoming(r *redisqtest.Rig) dispatcher.Upcoming {
	r.Helper()
	u, err := r.Queue.Upcoming(r.Ctx)
	require.NoError(r, err)
	return u
}

// mustComeNext requires that the next work is due at this time. Zero requires that
// nothing is next.
func mustComeNext(r *redisqtest.Rig, at time.Time, why ...any) {
	r.Helper()
	u := upcoming(r)
	require.Equal(r, at, u.At, why...)
	if !at.IsZero() {
		require.Equal(r, at.Sub(r.Now), u.Wait, why...)
	}
}
