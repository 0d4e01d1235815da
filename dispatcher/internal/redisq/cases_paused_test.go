package redisq_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// PausedCases are about paused lanes, one or all of them.
var PausedCases = []redisqtest.Case{
	{Name: "a message to a paused lane is accepted and waits", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To("a")), r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Minute)))
		require.Equal(r, dispatcher.Accepted, got[0].Result)
		require.Equal(r, redisqtest.To("a"), redisqtest.Ready(got[0]))
		require.Empty(r, redisqtest.Leased(got[0]))
		r.MustClaimNothing(redisqtest.One)
		require.Equal(r, "paused", r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady).WaitingFor)
		require.Equal(r, "paused", r.MustStand(redisqtest.Named("a", "m2"), dispatcher.StatusScheduled).WaitingFor)
		r.Pass(time.Minute)
		require.Equal(r, -1, r.Move().Weight)
		r.MustStand(redisqtest.Named("a", "m2"), dispatcher.StatusReady)
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "a cancelled delivery in a paused lane ends at once, anywhere in its list", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.PublishMany("a", 1000)
		all := r.State().Ready["a"]
		gone := []dispatcher.DeliveryID{all[999], all[0], all[500], all[499], all[501], all[130], all[870]}
		require.NotContains(r, r.Cancel(gone...), false)
		require.NotContains(r, r.Cancel(gone...), true)
		left := slices.DeleteFunc(all, func(id dispatcher.DeliveryID) bool { return slices.Contains(gone, id) })
		require.Equal(r, left, r.State().Ready["a"])
		require.Empty(r, r.State().Marks)
		require.Equal(r, map[dispatcher.Status]int64{dispatcher.StatusReady: 993, dispatcher.StatusCancelled: 7}, r.Stats().Counts)
		for _, id := range gone {
			r.MustStand(id, dispatcher.StatusCancelled)
		}
		require.NotContains(r, r.Cancel(left...), false)
		require.Zero(r, r.LaneState("a").Waiting)
		r.Resume("a")
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "one cancel ends the first of a key and the next one, which it moved to the tail", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.PublishKeyed("a", "k", "m1", "m2", "m3")
		r.Publish("a", "m4")
		require.NotContains(r, r.Cancel(redisqtest.IDs("a", "m1", "m2", "m4")...), false)
		r.MustLie(redisqtest.PlaceCancelled, "a", "m1", "m2", "m4")
		require.Equal(r, redisqtest.IDs("a", "m3"), r.State().Ready["a"])
		require.Empty(r, r.State().Marks)
	}},
	{Name: "a paused lane does not block others", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.Publish("a", "m1")
		r.Publish("b", "m2")
		r.MustClaim(redisqtest.One, redisqtest.Named("b", "m2"))
	}},
	{Name: "a resumed lane continues in its order", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.Publish("a", "m3")
		r.MustClaimNothing(redisqtest.One)
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 0), r.Resume("a")[0].Weight)
		require.Equal(r, redisqtest.IDs("a", "m1", "m2"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
	}},
	{Name: "a second pause, or a resume of a lane that is not paused, changes nothing", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Resume("a")
		r.MustChangeNothing(func() { r.Resume("a") })
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.MustChangeNothing(func() { r.Limit("a", redisqtest.Mode(dispatcher.LanePaused)) })
	}},
	{Name: "attempts in flight end as usual when their lane is paused", Run: func(r *redisqtest.Rig) {
		for range 3 {
			r.Succeed("a")
		}
		r.Publish("a", "m1", "m2", "m3", "m4", "m5")
		c := r.Claim(redisqtest.One, 4)
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.Settle(redisqtest.One, redisqtest.Success(c[0]), redisqtest.Failure(c[1], time.Minute), redisqtest.Death(c[2], dispatcher.ReasonGone), redisqtest.HandBack(c[3]))
		r.MustLie(redisqtest.PlaceDone, "a", "m1")
		r.MustLie(redisqtest.PlaceDue, "a", "m2")
		r.MustLie(redisqtest.PlaceDead, "a", "m3")
		require.Equal(r, redisqtest.IDs("a", "m4", "m5"), r.State().Ready["a"])
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "deliveries of a dead instance wait in their paused lane", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		require.Equal(r, 1, r.Reap(redisqtest.One))
		r.MustClaimNothing(redisqtest.Two)
		r.Resume("a")
		r.MustClaim(redisqtest.Two, redisqtest.Named("a", "m1"))
	}},
	{Name: "deliveries of a paused lane can be cancelled and retried", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)), r.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.Publish("a", "m3")
		require.Equal(r, []bool{true}, r.Retry(redisqtest.Named("a", "m1")))
		require.Equal(r, []bool{true, true}, r.Cancel(redisqtest.Named("a", "m2"), redisqtest.Named("a", "m3")))
		r.MustClaimNothing(redisqtest.One)
		r.MustStand(redisqtest.Named("a", "m2"), dispatcher.StatusCancelled)
		r.MustStand(redisqtest.Named("a", "m3"), dispatcher.StatusCancelled)
		r.Resume("a")
		require.Equal(r, redisqtest.IDs("a", "m1"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
	}},
	{Name: "an endpoint's lane is paused and resumed by its versions", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LanePaused), redisqtest.Most(7))
		r.Publish(redisqtest.EpOne, "m1")
		r.MustClaimNothing(redisqtest.One)
		r.Limit(redisqtest.EpOne, redisqtest.Most(7))
		require.Equal(r, int64(2), r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))[0].Version)
	}},
	{Name: "one call pauses all lanes, in every partition", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		for _, lane := range redisqtest.ManyLanes(8) {
			r.PublishMany(lane, 1)
		}
		holdAll(r)
		require.Empty(r, r.ClaimAll(redisqtest.One))
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.ManyLanes(12)))
		require.Len(r, redisqtest.Ready(got[0]), 12)
		require.Empty(r, r.Leases(redisqtest.One))
		require.Equal(r, "paused", r.Inspect(redisqtest.Named("lane000", "m1")).WaitingFor)
		r.Resume(dispatcher.AllLanes)
		require.False(r, r.State().AllPaused)
		require.Len(r, r.ClaimAll(redisqtest.One), 20)
	}},
	{Name: "a pause of all lanes stops only attempts", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.Schedule(r.Entry("m3", redisqtest.To("b"), redisqtest.Delay(time.Second)), r.Entry("m4", redisqtest.To("b"), redisqtest.Delay(time.Hour)))
		c := r.Claim(redisqtest.One, 64)
		holdAll(r)
		r.Pass(time.Second)
		require.Equal(r, -1, r.Move().Weight)
		r.MustLie(redisqtest.PlaceReady, "b", "m3")
		r.MustSettle(redisqtest.One, redisqtest.Success(c[0]))
		r.MustSettle(redisqtest.One, redisqtest.HandBack(c[1]))
		r.Retry(redisqtest.Named("b", "m4"))
		r.Cancel(redisqtest.Named("b", "m3"))
		r.MustStand(redisqtest.Named("b", "m3"), dispatcher.StatusCancelled)
		r.MustClaimNothing(redisqtest.One)
		r.Resume(dispatcher.AllLanes)
		require.Equal(r, []dispatcher.DeliveryID{redisqtest.Named("a", "m2"), redisqtest.Named("b", "m4")}, redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
	}},
	{Name: "no hint reports a lane while all lanes are paused", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.Schedule(r.Entry("m4", redisqtest.To("b"), redisqtest.Delay(time.Hour)))
		c := r.Claim(redisqtest.One, 1)
		holdAll(r)
		hints := func(h []redisqtest.Hint, err error) {
			require.NoError(r, err)
			require.NotEmpty(r, h)
			for _, hint := range h {
				require.Equal(r, -1, hint.Weight)
				require.Equal(r, redisqtest.Start.Add(time.Hour), hint.Due)
			}
		}
		_, h, err := r.Queue.Move(r.Ctx, redisqtest.One, r.All())
		hints(h, err)
		_, h, err = r.Queue.Settle(r.Ctx, redisqtest.One, []dispatcher.Settlement{redisqtest.HandBack(c[0])})
		hints(h, err)
		_, h, err = r.Queue.Schedule(r.Ctx, redisqtest.One, 512, 64, []dispatcher.Entry{r.Entry("m5", redisqtest.To("c"))})
		hints(h, err)
		_, h, err = r.Queue.Claim(r.Ctx, redisqtest.One, r.All(), 64, 512)
		hints(h, err)
		_, h, err = r.Queue.Cancel(r.Ctx, redisqtest.One, redisqtest.IDs("a", "m2"))
		hints(h, err)
		_, h, err = r.Resend(r.Ctx, redisqtest.One, redisqtest.IDs("a", "m2"))
		hints(h, err)
		_, h, err = r.Queue.Reap(r.Ctx, redisqtest.Two, "nobody")
		hints(h, err)
		_, h, err = r.Queue.Limit(r.Ctx, redisqtest.One, "a", dispatcher.LaneLimits{MaxInFlight: 1}, false)
		hints(h, err)
	}},
	{Name: "a paused lane stays paused when all lanes are resumed", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.Publish("b", "m2")
		holdAll(r)
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.Resume(dispatcher.AllLanes)
		r.MustClaim(redisqtest.One, redisqtest.Named("b", "m2"))
		r.MustClaimNothing(redisqtest.One)
	}},
	{Name: "the limits of all lanes set nothing but the pause", Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 3)
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{MaxInFlight: 1, Ordered: true, Interval: time.Hour}, true)
		require.False(r, r.State().AllPaused)
		require.Len(r, r.Claim(redisqtest.One, 64), 2)
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{MaxInFlight: 1, Mode: dispatcher.LanePaused}, false)
		require.True(r, r.State().AllPaused)
		r.MustChangeNothing(func() { holdAll(r) })
	}},
	{Name: "lanes keep their places and turns while all are paused", Run: func(r *redisqtest.Rig) {
		r.PublishMany("a", 3)
		r.Pass(time.Second)
		r.PublishMany("b", 3)
		before := r.State()
		holdAll(r)
		r.Pass(time.Second)
		require.Equal(r, before.Lanes, r.State().Lanes)
		r.Resume(dispatcher.AllLanes)
		require.Equal(r, before.Lanes, r.State().Lanes)
	}},
}

func holdAll(r *redisqtest.Rig) {
	r.Helper()
	r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
	require.True(r, r.State().AllPaused)
}

// BlockedCases are about the lanes that Stats reports, and about their deliveries
// that wait for a reason. Only a delivery that may be attempted is late.
var BlockedCases = []redisqtest.Case{
	{Name: "each lane is counted once, by its state", Setup: redisqtest.Setup{Partitions: 4, Breaker: 1, BreakerWait: time.Minute}, Run: func(r *redisqtest.Rig) {
		r.Publish("good", "m1")
		r.Publish("open", "m2")
		r.Publish("asked", "m3")
		for _, c := range r.Claim(redisqtest.One, 64) {
			switch c.ID.Lane {
			case "open":
				r.Settle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(c, time.Hour)))
			case "asked":
				r.Settle(redisqtest.One, redisqtest.Paused(c, time.Hour, time.Minute))
			default:
				r.Settle(redisqtest.One, redisqtest.Success(c))
			}
		}
		r.Limit(redisqtest.EpOne, redisqtest.Every(time.Hour))
		r.Publish(redisqtest.EpOne, "m4")
		r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m4"))
		r.Limit(redisqtest.EpTwo, redisqtest.Mode(dispatcher.LaneDisabled))
		r.Limit("ep_paused", redisqtest.Mode(dispatcher.LanePaused))
		r.Limit("ep_idle")
		want := map[dispatcher.EndpointState]int64{
			dispatcher.StateActive: 2, dispatcher.StateOpen: 1, dispatcher.StateFailing: 0, dispatcher.StateLimited: 2, dispatcher.StatePaused: 1, dispatcher.StateDisabled: 1,
		}
		require.Equal(r, want, r.Stats().LanesBy)
		r.LimitAs("open", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		want[dispatcher.StateOpen], want[dispatcher.StatePaused] = 0, 2
		require.Equal(r, want, r.Stats().LanesBy, "a pause comes before the breaker")
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		require.Equal(r, map[dispatcher.EndpointState]int64{
			dispatcher.StateActive: 0, dispatcher.StateOpen: 0, dispatcher.StateFailing: 0, dispatcher.StateLimited: 0, dispatcher.StatePaused: 6, dispatcher.StateDisabled: 1,
		}, r.Stats().LanesBy)
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{}, false)
		require.Equal(r, want, r.Stats().LanesBy)
	}},
	{Name: "deliveries of a paused lane are held back, and not late", Run: func(r *redisqtest.Rig) {
		r.LimitAs("a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		r.Publish("a", "m1", "m2")
		r.Schedule(r.Entry("m3", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		r.Pass(time.Minute)
		r.Publish("b", "m4")
		mustHold(r, dispatcher.WhyPaused, 2)
		require.Equal(r, r.Now, r.Stats().OldestDue, "only the other lane's")
		require.Equal(r, redisqtest.Start, r.Stats().BlockedSince)
		r.MustClaim(redisqtest.One, redisqtest.Named("b", "m4"))
		require.Zero(r, r.Stats().OldestDue)
		r.Resume("a")
		require.Zero(r, r.Stats().BlockedSince)
		mustHold(r, dispatcher.WhyPaused, 0)
		require.Equal(r, redisqtest.Start, r.Stats().OldestDue)
		r.LimitAs(dispatcher.AllLanes, dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		mustHold(r, dispatcher.WhyPaused, 2)
		require.Zero(r, r.Stats().OldestDue)
		require.Equal(r, r.Now, r.Stats().BlockedSince, "of all lanes")
	}},
	{Name: "deliveries of an open lane are held back until its breaker closes", Setup: redisqtest.Setup{Breaker: 1, BreakerWait: time.Minute}, Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2", "m3")
		r.Settle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0)))
		r.Move()
		mustHold(r, dispatcher.WhyBreaker, 3)
		require.Zero(r, r.Stats().OldestDue)
		r.Pass(time.Minute)
		r.Move()
		mustHold(r, dispatcher.WhyBreaker, 3)
		require.Zero(r, r.Stats().OldestDue, "a probe goes before the others")
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m2"))[0]))
		mustHold(r, dispatcher.WhyBreaker, 0)
		require.Equal(r, redisqtest.Start, r.Stats().OldestDue)
	}},
	{Name: "deliveries are held back until the end of their receiver's pause", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1", "m2")
		r.MustSettle(redisqtest.One, redisqtest.Paused(r.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], time.Hour, time.Minute))
		mustHold(r, dispatcher.WhyRetryAfter, 1)
		require.Zero(r, r.Stats().OldestDue)
		r.Pass(time.Minute)
		mustHold(r, dispatcher.WhyRetryAfter, 0)
		require.Equal(r, redisqtest.Start, r.Stats().OldestDue, "now it may be attempted")
	}},
	{Name: "deliveries of a rated lane are held back while the rate is in use", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Every(time.Minute))
		r.Publish(redisqtest.EpOne, "m1", "m2", "m3")
		require.Equal(r, redisqtest.Start, r.Stats().OldestDue, "no attempt was made yet")
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))[0]))
		mustHold(r, dispatcher.WhyRate, 2)
		require.Zero(r, r.Stats().OldestDue)
		r.Pass(time.Minute)
		mustHold(r, dispatcher.WhyRate, 2)
		require.Zero(r, r.Stats().OldestDue, "it has its turn")
		r.Pass(time.Minute + time.Second)
		mustHold(r, dispatcher.WhyRate, 0)
		require.Equal(r, redisqtest.Start, r.Stats().OldestDue, "no instance will claim it")
	}},
	{Name: "a delivery behind another of its key is held back by the order", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		r.PublishKeyed("a", "k", "m1", "m2", "m3")
		r.PublishKeyed("b", "k", "n1", "n2")
		r.Schedule(r.Entry("m4", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		mustHold(r, dispatcher.WhyOrder, 3)
		r.MustSettle(redisqtest.One, redisqtest.Success(mustClaimIn(r, "a", "m1")))
		mustHold(r, dispatcher.WhyOrder, 2)
	}},
	{Name: "a delivery that waits for a permit is late, and one that waits for a key is held back", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Most(1))
		r.Publish(redisqtest.EpOne, "m1", "m2")
		r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))
		require.Equal(r, redisqtest.Start, r.Stats().OldestDue)
		r.Publish("a", "n1", "n2")
		s := redisqtest.HandBack(mustClaimIn(r, "a", "n1"))
		s.Pause, s.Stalled = time.Hour, dispatcher.WhySealed
		r.MustSettle(redisqtest.One, s)
		require.Equal(r, redisqtest.Start, r.Stats().OldestDue, "of the other lane")
		mustHold(r, dispatcher.WhySealed, 2)
	}},
	{Name: "a delivery without its endpoint is held back and reports it", Run: func(r *redisqtest.Rig) {
		r.Publish(redisqtest.EpOne, "m1", "m2") // no caller wrote the lane's limits
		require.Zero(r, r.Stats().OldestDue)
		mustHold(r, dispatcher.WhyMissing, 2)
		require.EqualValues(r, 1, r.Stats().LanesBy[dispatcher.StateLimited])
		mustWaitFor(r, "missing", redisqtest.EpOne, "m1", "m2")
		l := r.LaneState(redisqtest.EpOne)
		state, why := l.Standing()
		require.Equal(r, []any{dispatcher.StateLimited, dispatcher.WhyMissing}, []any{state, why})
		r.Limit(redisqtest.EpOne)
		mustHold(r, "", 0)
		mustWaitFor(r, "permits", redisqtest.EpOne, "m1", "m2")
	}},
	{Name: "deliveries of a disabled endpoint end, and are neither held back nor late", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Publish(redisqtest.EpOne, "m1")
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		require.Zero(r, r.Stats().OldestDue)
		mustHold(r, "", 0)
	}},
}

// mustHold fails the case unless Stats reports n deliveries that wait for this
// reason, and none that wait for another reason.
func mustHold(r *redisqtest.Rig, why dispatcher.LaneWhy, n int64) {
	r.Helper()
	got := r.Stats().Blocked
	want := map[dispatcher.LaneWhy]int64{
		dispatcher.WhyPaused: 0, dispatcher.WhyBreaker: 0, dispatcher.WhyRetryAfter: 0, dispatcher.WhyRate: 0, dispatcher.WhyOrder: 0,
		dispatcher.WhyConsumer: 0, dispatcher.WhySealed: 0, dispatcher.WhyMissing: 0, dispatcher.WhyEgress: 0,
	}
	if why != "" {
		want[why] = n
	}
	require.Equal(r, want, got)
}
