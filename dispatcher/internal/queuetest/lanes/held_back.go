package lanes

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// HeldBackCases are about the lanes that Stats reports, and about their deliveries
// that wait for a reason. Only a delivery that may be attempted is late.
var HeldBackCases = []rig.Case{
	{Name: "each lane is counted once, by its state", Setup: stored.Setup{Partitions: 4, Breaker: 1, BreakerWait: time.Minute}, Run: func(r *rig.Rig) {
		r.Publish("good", "m1")
		r.Publish("open", "m2")
		r.Publish("asked", "m3")
		for _, c := range r.Claim(rig.One, 64) {
			switch c.ID.Lane {
			case "open":
				r.Settle(rig.One, rig.Blamed(rig.Failure(c, time.Hour)))
			case "asked":
				r.Settle(rig.One, rig.Paused(c, time.Hour, time.Minute))
			default:
				r.Settle(rig.One, rig.Success(c))
			}
		}
		r.Limit(rig.EpOne, rig.Every(time.Hour))
		r.Publish(rig.EpOne, "m4")
		r.MustClaim(rig.One, rig.Named(rig.EpOne, "m4"))
		r.Limit(rig.EpTwo, rig.Held(dispatcher.HeldDisabled))
		r.Limit("ep_paused", rig.Held(dispatcher.HeldPaused))
		r.Limit("ep_idle")
		want := map[dispatcher.EndpointState]int64{
			dispatcher.StateActive: 2, dispatcher.StateOpen: 1, dispatcher.StateFailing: 0, dispatcher.StateLimited: 2, dispatcher.StatePaused: 1, dispatcher.StateDisabled: 1,
		}
		require.Equal(r, want, r.Stats().LanesBy)
		r.LimitAs("open", dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
		want[dispatcher.StateOpen], want[dispatcher.StatePaused] = 0, 2
		require.Equal(r, want, r.Stats().LanesBy, "a pause comes before the breaker")
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
		require.Equal(r, map[dispatcher.EndpointState]int64{
			dispatcher.StateActive: 0, dispatcher.StateOpen: 0, dispatcher.StateFailing: 0, dispatcher.StateLimited: 0, dispatcher.StatePaused: 6, dispatcher.StateDisabled: 1,
		}, r.Stats().LanesBy)
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{}, false)
		require.Equal(r, want, r.Stats().LanesBy)
	}},
	{Name: "deliveries of a paused lane are held back, and not late", Run: func(r *rig.Rig) {
		r.LimitAs("a", dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
		r.Publish("a", "m1", "m2")
		r.Schedule(r.Entry("m3", rig.To("a"), rig.Delay(time.Hour)))
		r.Pass(time.Minute)
		r.Publish("b", "m4")
		mustHold(r, dispatcher.WhyPaused, 2)
		require.Equal(r, r.Now, r.Stats().OldestDue, "only the other lane's")
		r.MustClaim(rig.One, rig.Named("b", "m4"))
		require.Zero(r, r.Stats().OldestDue)
		r.Resume("a")
		mustHold(r, dispatcher.WhyPaused, 0)
		require.Equal(r, rig.Start, r.Stats().OldestDue)
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Held: dispatcher.HeldPaused}, false)
		mustHold(r, dispatcher.WhyPaused, 2)
		require.Zero(r, r.Stats().OldestDue)
	}},
	{Name: "deliveries of an open lane are held back until its breaker closes", Setup: stored.Setup{Breaker: 1, BreakerWait: time.Minute}, Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.Settle(rig.One, rig.Blamed(rig.Failure(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], 0)))
		r.Move()
		mustHold(r, dispatcher.WhyBreaker, 3)
		require.Zero(r, r.Stats().OldestDue)
		r.Pass(time.Minute)
		r.Move()
		mustHold(r, dispatcher.WhyBreaker, 3)
		require.Zero(r, r.Stats().OldestDue, "a probe goes before the others")
		r.MustSettle(rig.One, rig.Success(r.MustClaim(rig.One, rig.Named("a", "m2"))[0]))
		mustHold(r, dispatcher.WhyBreaker, 0)
		require.Equal(r, rig.Start, r.Stats().OldestDue)
	}},
	{Name: "deliveries are held back until the end of their receiver's pause", Run: func(r *rig.Rig) {
		r.Publish("a", "m1", "m2")
		r.MustSettle(rig.One, rig.Paused(r.MustClaim(rig.One, rig.Named("a", "m1"))[0], time.Hour, time.Minute))
		mustHold(r, dispatcher.WhyRetryAfter, 1)
		require.Zero(r, r.Stats().OldestDue)
		r.Pass(time.Minute)
		mustHold(r, dispatcher.WhyRetryAfter, 0)
		require.Equal(r, rig.Start, r.Stats().OldestDue, "now it may be attempted")
	}},
	{Name: "deliveries of a rated lane are held back while the rate is in use", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Every(time.Minute))
		r.Publish(rig.EpOne, "m1", "m2", "m3")
		require.Equal(r, rig.Start, r.Stats().OldestDue, "no attempt was made yet")
		r.MustSettle(rig.One, rig.Success(r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))[0]))
		mustHold(r, dispatcher.WhyRate, 2)
		require.Zero(r, r.Stats().OldestDue)
		r.Pass(time.Minute)
		mustHold(r, dispatcher.WhyRate, 2)
		require.Zero(r, r.Stats().OldestDue, "it has its turn")
		r.Pass(time.Minute + time.Second)
		mustHold(r, dispatcher.WhyRate, 0)
		require.Equal(r, rig.Start, r.Stats().OldestDue, "no instance will claim it")
	}},
	{Name: "a delivery behind another of its key is held back by the order", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2", "m3")
		r.PublishKeyed("b", "k", "n1", "n2")
		r.Schedule(r.Entry("m4", rig.To("a"), rig.Delay(time.Hour)))
		mustHold(r, dispatcher.WhyOrder, 3)
		r.MustSettle(rig.One, rig.Success(mustClaimIn(r, "a", "m1")))
		mustHold(r, dispatcher.WhyOrder, 2)
	}},
	{Name: "a delivery that waits for a permit is late, and one that waits for a key is held back", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Most(1))
		r.Publish(rig.EpOne, "m1", "m2")
		r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))
		require.Equal(r, rig.Start, r.Stats().OldestDue)
		r.Publish("a", "n1", "n2")
		s := rig.HandBack(mustClaimIn(r, "a", "n1"))
		s.Pause, s.Stalled = time.Hour, dispatcher.WhySealed
		r.MustSettle(rig.One, s)
		require.Equal(r, rig.Start, r.Stats().OldestDue, "of the other lane")
		mustHold(r, dispatcher.WhySealed, 2)
	}},
	{Name: "a delivery without its endpoint is held back and reports it", Run: func(r *rig.Rig) {
		r.Publish(rig.EpOne, "m1", "m2") // no caller wrote the lane's limits
		require.Zero(r, r.Stats().OldestDue)
		mustHold(r, dispatcher.WhyMissing, 2)
		require.EqualValues(r, 1, r.Stats().LanesBy[dispatcher.StateLimited])
		mustWaitFor(r, "missing", rig.EpOne, "m1", "m2")
		l := r.LaneState(rig.EpOne)
		state, why := l.Standing()
		require.Equal(r, []any{dispatcher.StateLimited, dispatcher.WhyMissing}, []any{state, why})
		r.Limit(rig.EpOne)
		mustHold(r, "", 0)
		mustWaitFor(r, "permits", rig.EpOne, "m1", "m2")
	}},
	{Name: "deliveries of a disabled endpoint end, and are neither held back nor late", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Publish(rig.EpOne, "m1")
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldDisabled))
		require.Zero(r, r.Stats().OldestDue)
		mustHold(r, "", 0)
	}},
}

// mustHold fails the case unless Stats reports n deliveries that wait for this
// reason, and none that wait for another reason.
func mustHold(r *rig.Rig, why dispatcher.LaneWhy, n int64) {
	r.Helper()
	got := r.Stats().Held
	want := map[dispatcher.LaneWhy]int64{
		dispatcher.WhyPaused: 0, dispatcher.WhyBreaker: 0, dispatcher.WhyRetryAfter: 0, dispatcher.WhyRate: 0, dispatcher.WhyOrder: 0,
		dispatcher.WhyConsumer: 0, dispatcher.WhySealed: 0, dispatcher.WhyMissing: 0, dispatcher.WhyEgress: 0,
	}
	if why != "" {
		want[why] = n
	}
	require.Equal(r, want, got)
}
