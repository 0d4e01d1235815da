package redisq_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// expiryQueue is the lane of a queue.
const expiryQueue = dispatcher.Lane("q_a")

// inMinute returns an option that lets a message expire in a minute.
func inMinute(r *redisqtest.Rig) func(*dispatcher.Message) {
	return redisqtest.Expires(r.Later(time.Minute))
}

// mustExpire lets deliveries expire together. It fails the case unless the hint reports a
// move at that time, and unless that move ends them.
func mustExpire(r *redisqtest.Rig, ids ...dispatcher.DeliveryID) {
	r.Helper()
	at := time.UnixMilli(r.State().Expiring[ids[0]]).UTC()
	require.Equal(r, at, r.Hints[0].Due, "the hint reports the expiry")
	r.SetNow(at.Add(-time.Microsecond))
	r.Move()
	for _, id := range ids {
		require.True(r, r.State().At(id).Place.Waits(), "%s ended early", id)
	}
	r.SetNow(at)
	r.Died = nil
	r.Move()
	for _, id := range ids {
		d := r.MustStand(id, dispatcher.StatusDead)
		require.Equal(r, dispatcher.ReasonExpired, d.Reason)
		require.Equal(r, at, d.Ended)
		require.Contains(r, r.Died, dispatcher.Death{ID: id, Reason: dispatcher.ReasonExpired, Attempts: d.Attempts})
	}
	require.Len(r, r.Died, len(ids))
}

// overdue reports whether the store has missed the check of an expiring delivery.
func overdue(r *redisqtest.Rig) bool {
	for _, at := range r.State().Expiring {
		if at <= r.Now.UnixMilli() {
			return true
		}
	}
	return false
}

// ExpiryCases are about deliveries that end when their message expires, wherever they wait.
var ExpiryCases = []redisqtest.Case{
	{Name: "a ready delivery in a paused lane dies when it expires", Run: func(r *redisqtest.Rig) {
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		r.Publish("a", "m0")
		r.Schedule(r.Entry("m1", redisqtest.To("a"), inMinute(r)))
		r.Publish("a", "m2")
		mustExpire(r, redisqtest.Named("a", "m1"))
		require.Equal(r, redisqtest.IDs("a", "m0", "m2"), r.State().Ready["a"])
		require.Zero(r, r.Hints[0].Due, "nothing else expires")
	}},
	{Name: "a delivery that waits in a lane at its limit dies when it expires", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Most(1))
		r.Publish(redisqtest.EpOne, "m1")
		r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))
		r.Schedule(r.Entry("m2", redisqtest.To(redisqtest.EpOne), inMinute(r)))
		mustExpire(r, redisqtest.Named(redisqtest.EpOne, "m2"))
		r.MustStand(redisqtest.Named(redisqtest.EpOne, "m1"), dispatcher.StatusInFlight)
	}},
	{Name: "a queue's delivery dies when it expires, even if no consumer polls", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To(expiryQueue), inMinute(r)))
		mustExpire(r, redisqtest.Named(expiryQueue, "m1"))
		require.Empty(r, r.Take(redisqtest.One, 8, expiryQueue).Claimed)
	}},
	{Name: "a scheduled delivery dies when it expires before it is due", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour), inMinute(r)), r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		mustExpire(r, redisqtest.Named("a", "m1"))
		require.Equal(r, redisqtest.Start.Add(time.Hour), r.Hints[0].Due)
	}},
	{Name: "a delivery that is due when it expires is not attempted", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Minute), inMinute(r)))
		mustExpire(r, redisqtest.Named("a", "m1"))
	}},
	{Name: "a delivery that waits for a retry dies when it expires", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), inMinute(r)))
		r.MustSettle(redisqtest.One, redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], time.Hour)) // the worker that settles read another clock
		mustExpire(r, redisqtest.Named("a", "m1"))
		require.Equal(r, 1, r.Inspect(redisqtest.Named("a", "m1")).Attempts)
	}},
	{Name: "the next delivery of a key can go when the first one expires", Run: func(r *redisqtest.Rig) {
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Keyed("k"), inMinute(r)))
		r.PublishKeyed("a", "k", "m2")
		mustExpire(r, redisqtest.Named("a", "m1"))
		r.MustLie(redisqtest.PlaceReady, "a", "m2")
	}},
	{Name: "a delivery behind others of its key dies when it expires", Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1")
		r.Schedule(r.Entry("m2", redisqtest.To("a"), redisqtest.Keyed("k"), inMinute(r)))
		r.PublishKeyed("a", "k", "m3")
		mustExpire(r, redisqtest.Named("a", "m2"))
		r.MustLie(redisqtest.PlaceBehind, "a", "m3")
		r.Deliver(redisqtest.Named("a", "m1"))
		r.Deliver(redisqtest.Named("a", "m3"))
	}},
	{Name: "all deliveries of an ordered lane die when they expire", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Ordered, redisqtest.Mode(dispatcher.LanePaused))
		for _, id := range []string{"m1", "m2", "m3"} {
			r.Schedule(r.Entry(id, redisqtest.To(redisqtest.EpOne), inMinute(r)))
		}
		mustExpire(r, redisqtest.IDs(redisqtest.EpOne, "m1", "m2", "m3")...)
	}},
	{Name: "a trim removes the time after the last expiring delivery was delivered", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), inMinute(r)))
		r.Deliver(redisqtest.Named("a", "m1"))
		require.NotZero(r, r.State().Expiry)
		r.Pass(time.Hour)
		r.Trim(redisqtest.KeepNothing)
		require.Zero(r, r.State().Expiry)
	}},
	{Name: "a delivery that expires in flight ends with its attempt", Run: func(r *redisqtest.Rig) {
		for _, id := range []string{"done", "back"} {
			r.Schedule(r.Entry(id, redisqtest.To("a"), inMinute(r)))
		}
		claimed := r.MustClaim(redisqtest.One, redisqtest.IDs("a", "done", "back")...)
		r.Pass(time.Minute)
		r.Move()
		r.MustStand(redisqtest.Named("a", "done"), dispatcher.StatusInFlight)
		r.MustSettle(redisqtest.One, redisqtest.Success(claimed[0]))
		require.NotContains(r, r.State().Expiring, redisqtest.Named("a", "done"))
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		r.MustSettle(redisqtest.One, redisqtest.HandBack(claimed[1]))
		r.MustStand(redisqtest.Named("a", "back"), dispatcher.StatusReady)
		mustExpire(r, redisqtest.Named("a", "back")) // the store checks it again
		require.LessOrEqual(r, r.Now.Sub(redisqtest.Start), time.Minute+3*time.Second)
	}},
	{Name: "a delivery that expires after it was taken ends with its attempt", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To(expiryQueue), inMinute(r)))
		r.MustTakeFor(time.Hour, redisqtest.Named(expiryQueue, "m1"))
		r.Pass(time.Minute)
		r.Move()
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustAdopt(redisqtest.One, redisqtest.Named(expiryQueue, "m1"))))
		r.MustStand(redisqtest.Named(expiryQueue, "m1"), dispatcher.StatusDelivered)
	}},
	{Name: "a taken delivery that expires does not block the deliveries behind it", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To(expiryQueue), inMinute(r)), r.Entry("m2", redisqtest.To(expiryQueue), inMinute(r)))
		r.Publish(expiryQueue, "m3")
		r.MustTakeFor(time.Hour, redisqtest.Named(expiryQueue, "m1"))
		mustExpire(r, redisqtest.Named(expiryQueue, "m2"))
		r.MustStand(redisqtest.Named(expiryQueue, "m1"), dispatcher.StatusInFlight)
		r.MustLie(redisqtest.PlaceReady, expiryQueue, "m3")
	}},
	{Name: "a delivery that was cancelled before it expires stays cancelled", Run: func(r *redisqtest.Rig) {
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		r.Schedule(r.Entry("m1", redisqtest.To("a"), inMinute(r)))
		r.Cancel(redisqtest.Named("a", "m1"))
		require.Empty(r, r.State().Expiring)
		r.Pass(2 * time.Minute)
		r.Move()
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusCancelled)
		require.Empty(r, r.Died)
	}},
	{Name: "a late success makes a delivery delivered even if it waits for a retry and expires", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), inMinute(r)))
		c := r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		r.Reap(redisqtest.One)
		require.Equal(r, []dispatcher.SettleResult{dispatcher.SettledDone}, r.Settle(redisqtest.One, redisqtest.Success(c)))
		r.Pass(time.Minute)
		r.Move()
		r.MustLie(redisqtest.PlaceDone, "a", "m1")
		require.Empty(r, r.Died)
	}},
	{Name: "a dead delivery that is retried dies when it expires", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), inMinute(r)))
		r.MustSettle(redisqtest.One, redisqtest.Death(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], dispatcher.ReasonExhausted))
		require.Empty(r, r.State().Expiring)
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		r.Retry(redisqtest.Named("a", "m1"))
		mustExpire(r, redisqtest.Named("a", "m1"))
	}},
	{Name: "a delivery that waits in a disabled lane ends as disabled", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Schedule(r.Entry("m1", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour), inMinute(r)))
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		r.Pass(time.Minute)
		r.Move()
		require.Equal(r, dispatcher.ReasonDisabled, r.MustStand(redisqtest.Named(redisqtest.EpOne, "m1"), dispatcher.StatusDead).Reason)
	}},
	{Name: "each delivery of a fan-out dies when the message expires", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.To("a", "b", "c", "d")
		for _, lane := range lanes {
			r.LimitAs(lane, dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		}
		r.Schedule(redisqtest.Fan(r.Entry("m1", lanes, inMinute(r))))
		r.Pass(time.Minute)
		r.Move()
		for _, lane := range lanes {
			require.Equal(r, dispatcher.ReasonExpired, r.MustStand(redisqtest.Named(lane, "m1"), dispatcher.StatusDead).Reason)
		}
	}},
	{Name: "a delivery in the middle of a long list dies when it expires", Run: func(r *redisqtest.Rig) {
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		for i := 0; i < 6000; i += 500 {
			batch := make([]dispatcher.Entry, 500)
			for k := range batch {
				batch[k] = r.Entry(fmt.Sprintf("m%d", i+k), redisqtest.To("a"))
			}
			if i == 2000 || i == 3500 {
				batch[300] = r.Entry(fmt.Sprintf("e%d", i), redisqtest.To("a"), redisqtest.Expires(redisqtest.Start.Add(time.Minute)))
			}
			r.Schedule(batch...)
			r.Pass(time.Second)
		}
		mustExpire(r, redisqtest.IDs("a", "e3500", "e2000")...)
		require.Len(r, r.State().Ready["a"], 5998)
	}},
	{Name: "deliveries deep in a long list die too when they expire", Run: func(r *redisqtest.Rig) {
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		const many, every = 4000, 10
		for i := 0; i < many; i += 1000 {
			batch := make([]dispatcher.Entry, 1000)
			for k := range batch {
				batch[k] = r.Entry(fmt.Sprintf("m%d", i+k), redisqtest.To("a"))
				if (i+k)%every == 0 {
					batch[k] = r.Entry(fmt.Sprintf("m%d", i+k), redisqtest.To("a"), inMinute(r))
				}
			}
			r.Schedule(batch...)
		}
		r.Pass(time.Minute)
		pauses := 0
		for round := 1; len(r.Died) < many/every; round++ {
			require.Less(r, round, 200)
			r.Move()
			next := r.Hints[0].Due
			if wait := next.Sub(r.Now); wait > 0 && wait < time.Second && overdue(r) {
				pauses++
				r.Schedule(r.Entry(fmt.Sprintf("later%d", round), redisqtest.To("b"), redisqtest.Delay(time.Hour), inMinute(r)))
				require.Equal(r, next, r.Hints[0].Due, "the hint reports no earlier time")
				r.Cancel(redisqtest.Named("b", fmt.Sprintf("later%d", round)))
			}
			r.Pass(next.Sub(r.Now) + time.Duration(round*round%997)*211*time.Microsecond)
		}
		require.Positive(r, pauses, "a long search is not repeated at once")
		require.Len(r, r.State().Ready["a"], many-many/every)
		require.Empty(r, r.State().Expiring)
		require.LessOrEqual(r, r.Now.Sub(redisqtest.Start), 5*time.Minute)
	}},
	{Name: "each call ends some of many expired deliveries, and the hints report the rest", Run: func(r *redisqtest.Rig) {
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		batch := make([]dispatcher.Entry, 150)
		for i := range batch {
			batch[i] = r.Entry(fmt.Sprintf("m%d", i), redisqtest.To("a"), inMinute(r))
		}
		r.Schedule(batch...)
		r.Pass(time.Minute)
		r.Move()
		left := len(r.State().Ready["a"])
		require.Greater(r, left, 0)
		require.GreaterOrEqual(r, left, len(batch)-100, "of one call")
		require.False(r, r.Hints[0].Due.After(r.Now), "there are more")
		for range 3 {
			r.Move()
		}
		require.Empty(r, r.State().Ready["a"])
		require.Zero(r, r.Hints[0].Due)
	}},
}
