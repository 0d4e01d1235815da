package redisq_test

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// LimitCases are about the copy of an endpoint's limits, and the number of
// deliveries in flight.
var LimitCases = []redisqtest.Case{
	{Name: "an endpoint's lane without limits is not claimed from", Run: func(r *redisqtest.Rig) {
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To(redisqtest.EpOne)))
		require.Equal(r, redisqtest.To(redisqtest.EpOne), redisqtest.Ready(got[0]))
		require.Equal(r, map[dispatcher.Lane]int64{redisqtest.EpOne: 0}, redisqtest.Versions(got[0]))
		r.Schedule(r.Entry("m2", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Second)))
		r.Pass(time.Second)
		require.Equal(r, -1, r.Move().Weight)
		r.MustClaimNothing(redisqtest.One)
		require.Equal(r, redisqtest.IDs(redisqtest.EpOne, "m1", "m2"), r.State().Ready[redisqtest.EpOne])
		_, hints := r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne), false)
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 0), hints[0].Weight)
		require.Equal(r, redisqtest.IDs(redisqtest.EpOne, "m1", "m2"), redisqtest.ClaimedIDs(r.Claim(redisqtest.One, 64)))
	}},
	{Name: "limits remain after the work of their lane has ended", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Publish(redisqtest.EpOne, "m1", "m2")
		c := r.Claim(redisqtest.One, 2)
		r.MustSettle(redisqtest.One, redisqtest.Success(c[0]))
		r.MustSettle(redisqtest.One, redisqtest.Success(c[1]))
		r.Pass(time.Hour)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes)
		require.True(r, r.State().Lanes[redisqtest.EpOne].Limited, "an endpoint's limits are never trimmed")
	}},
	{Name: "claim and schedule return the version of a lane's limits", Run: func(r *redisqtest.Rig) {
		for v := int64(1); v <= 3; v++ {
			r.Limit(redisqtest.EpOne)
			id := r.NewID()
			got := r.Schedule(r.Entry(id, redisqtest.To(redisqtest.EpOne, "a")))
			require.Equal(r, map[dispatcher.Lane]int64{redisqtest.EpOne: v}, redisqtest.Versions(got[0]))
			for _, c := range r.Claim(redisqtest.One, 2) {
				want := int64(0)
				if c.ID.Lane == redisqtest.EpOne {
					want = v
				}
				require.Equal(r, want, c.Version, "%s", c.ID)
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			}
		}
		require.Empty(r, redisqtest.Versions(r.Schedule(r.Entry("plain", redisqtest.To("a")))[0]))
	}},
	{Name: "each endpoint's lane of a fan-out has its own version", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Limit(redisqtest.EpOne)
		r.Limit(redisqtest.EpTwo)
		got := r.ScheduleFor(redisqtest.One, 512, 64, redisqtest.Fan(r.Entry("m1", redisqtest.To(redisqtest.EpOne, redisqtest.EpTwo, "a"))))
		require.Equal(r, map[dispatcher.Lane]int64{redisqtest.EpOne: 2, redisqtest.EpTwo: 1}, redisqtest.Versions(got[0]))
	}},
	{Name: "older limits, or the same limits again, change nothing", Run: func(r *redisqtest.Rig) {
		r.LimitAs(redisqtest.EpOne, dispatcher.LaneLimits{Version: 3, MaxInFlight: 7, Interval: time.Millisecond, Ordered: true}, false)
		r.Publish(redisqtest.EpOne, "m1")
		r.MustChangeNothing(func() {
			for v := int64(1); v <= 3; v++ {
				r.LimitAs(redisqtest.EpOne, dispatcher.LaneLimits{Version: v, Mode: dispatcher.LanePaused}, false)
			}
		})
		want := dispatcher.LaneLimits{Version: 3, MaxInFlight: 7, Interval: time.Millisecond, Ordered: true}
		require.Equal(r, want, r.State().Lanes[redisqtest.EpOne].Limits)
		require.Equal(r, want, r.LaneState(redisqtest.EpOne).Limits)
	}},
	{Name: "a deletion counts even if a failover lost earlier changes of the endpoint", Run: func(r *redisqtest.Rig) {
		r.LimitAs(redisqtest.EpOne, dispatcher.LaneLimits{Version: 9, Mode: dispatcher.LanePaused}, false)
		r.Publish(redisqtest.EpOne, "m1")
		r.LimitAs(redisqtest.EpOne, dispatcher.LaneLimits{Version: 7, Mode: dispatcher.LaneDeleted}, false)
		want := dispatcher.LaneLimits{Version: 9, Mode: dispatcher.LaneDeleted}
		require.Equal(r, want, r.State().Lanes[redisqtest.EpOne].Limits)
		r.LimitAs(redisqtest.EpOne, dispatcher.LaneLimits{Version: 8, Mode: dispatcher.LanePaused}, false)
		require.Equal(r, want, r.State().Lanes[redisqtest.EpOne].Limits)
	}},
	{Name: "a call closes a breaker even if its limits are not newer", Setup: redisqtest.Setup{Breaker: 1}, Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.MustSettle(redisqtest.One, redisqtest.Blamed(redisqtest.Failure(r.TakeNew(redisqtest.EpOne), time.Hour)))
		_, hints := r.LimitAs(redisqtest.EpOne, dispatcher.LaneLimits{Version: 1, Mode: dispatcher.LanePaused}, true)
		require.Equal(r, redisqtest.To(redisqtest.EpOne), hints[0].Closed)
		lane := r.State().Lanes[redisqtest.EpOne]
		require.Zero(r, lane.Opened)
		require.Equal(r, dispatcher.LaneNormal, lane.Limits.Mode)
	}},
	{Name: "limits of a lane without an endpoint are always written, and empty ones are removed", Run: func(r *redisqtest.Rig) {
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused), redisqtest.Most(3))
		require.Equal(r, dispatcher.LaneLimits{MaxInFlight: 3, Mode: dispatcher.LanePaused}, r.State().Lanes["a"].Limits)
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		require.Equal(r, dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, r.State().Lanes["a"].Limits)
		r.Resume("a")
		require.False(r, r.State().Lanes["a"].Limited)
	}},
	{Name: "a limit above the store's default applies to all instances together", Setup: redisqtest.Setup{LaneMaxInFlight: 3}, Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Most(5))
		for range 8 {
			r.Succeed(redisqtest.EpOne)
		}
		require.Equal(r, 5, r.State().Lanes[redisqtest.EpOne].Window)
		r.PublishMany(redisqtest.EpOne, 9)
		require.Len(r, r.Claim(redisqtest.One, 3), 3)
		require.Len(r, r.Claim(redisqtest.Two, 64), 2)
		r.MustClaimNothing(redisqtest.One)
		require.Equal(r, "limit", r.Inspect(redisqtest.Named(redisqtest.EpOne, "n00017")).WaitingFor)
	}},
	{Name: "a limit below the first window applies at once", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Most(1))
		got := r.ScheduleFor(redisqtest.One, 512, 64, r.Entry("m1", redisqtest.To(redisqtest.EpOne)), r.Entry("m2", redisqtest.To(redisqtest.EpOne)))
		require.Equal(r, redisqtest.To(redisqtest.EpOne), redisqtest.Leased(got[0]))
		require.Equal(r, redisqtest.To(redisqtest.EpOne), redisqtest.Ready(got[1]))
		r.MustClaimNothing(redisqtest.Two)
		require.Equal(r, 1, r.State().Lanes[redisqtest.EpOne].Window, "it begins there")
	}},
	{Name: "a new lane starts with its limits when it is resumed", Setup: redisqtest.Setup{LaneMaxInFlight: 1}, Run: func(r *redisqtest.Rig) {
		r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne, redisqtest.Most(5)), true)
		require.False(r, r.State().Lanes[redisqtest.EpOne].Known, "nothing needs to be cleared")
		r.PublishMany(redisqtest.EpOne, 3)
		require.Len(r, r.Claim(redisqtest.One, 64), 2)
	}},
	{Name: "no attempt begins under a lowered limit until enough have ended", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		for range 4 {
			r.Succeed(redisqtest.EpOne)
		}
		r.PublishMany(redisqtest.EpOne, 8)
		claimed := r.Claim(redisqtest.One, 3)
		r.Limit(redisqtest.EpOne, redisqtest.Most(2))
		r.MustClaimNothing(redisqtest.Two)
		r.MustSettle(redisqtest.One, redisqtest.Failure(claimed[0], time.Hour))
		r.MustClaimNothing(redisqtest.Two)
		r.MustSettle(redisqtest.One, redisqtest.Failure(claimed[1], time.Hour))
		require.Len(r, r.Claim(redisqtest.Two, 64), 1)
	}},
	{Name: "a raised limit lets more attempts begin at once, and a hint reports it", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.PublishMany(redisqtest.EpOne, 3)
		r.Limit(redisqtest.EpOne, redisqtest.Ordered)
		require.Len(r, r.Claim(redisqtest.One, 64), 1)
		w := r.Watch(redisqtest.Two)
		_, hints := r.LimitAs(redisqtest.EpOne, r.NewLimits(redisqtest.EpOne), false)
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 1), hints[0].Weight, "one in flight, and never seen")
		require.Equal(r, r.Setup.Weight(redisqtest.NewLane, 1), w.Next().Weight)
		require.Len(r, r.Claim(redisqtest.Two, 64), 1)
	}},
	{Name: "the window keeps to a limit that was lowered while it grew", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		for range 8 {
			r.Succeed(redisqtest.EpOne)
		}
		r.Limit(redisqtest.EpOne, redisqtest.Most(4))
		fallSilent(r, redisqtest.EpOne)
		require.Equal(r, 2, r.State().Lanes[redisqtest.EpOne].Window, "half of its old limit")
	}},
	{Name: "a change of limits returns the counts of the lane", Run: func(r *redisqtest.Rig) {
		require.Equal(r, dispatcher.LaneCount{}, r.Limit(redisqtest.EpOne))
		r.Publish(redisqtest.EpOne, "m1", "m2", "m3")
		r.Schedule(r.Entry("m4", redisqtest.To(redisqtest.EpOne), redisqtest.Delay(time.Hour)))
		r.PublishKeyed(redisqtest.EpOne, "k", "m5", "m6")
		r.Claim(redisqtest.One, 64)
		require.Equal(r, dispatcher.LaneCount{InFlight: 2, Waiting: 4}, r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDeleted)))
	}},
	{Name: "limits are kept by the lane's own partition", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		for _, lane := range []dispatcher.Lane{redisqtest.EpOne, redisqtest.EpTwo, "a", "b", "c"} {
			r.Limit(lane, redisqtest.Most(1))
			r.PublishMany(lane, 3)
		}
		require.Len(r, r.ClaimAll(redisqtest.One), 5)
	}},
	{Name: "a lane with limits is not trimmed, and one without limits is trimmed an hour later", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Most(3))
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.Pass(2 * time.Hour)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes)
		state := r.State()
		require.True(r, state.Lanes[redisqtest.EpOne].Limited)
		require.Equal(r, dispatcher.LanePaused, state.Lanes["a"].Limits.Mode)
		r.Resume("a")
		r.Pass(time.Hour)
		require.Equal(r, 1, r.Trim(redisqtest.KeepAll).Lanes)
		require.NotContains(r, r.State().Lanes, dispatcher.Lane("a"))
	}},
	{Name: "a lane is trimmed even if its limits were set and removed", Run: func(r *redisqtest.Rig) {
		r.Succeed("a")
		r.Pass(time.Hour - time.Millisecond)
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		r.Resume("a")
		r.Pass(time.Millisecond)
		require.Equal(r, 1, r.Trim(redisqtest.KeepNothing).Lanes)
	}},
	{Name: "a deleted lane is trimmed when nothing is left in it", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Ordered)
		r.Publish(redisqtest.EpOne, "m1", "m2")
		c := r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))[0]
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDeleted))
		r.Pass(time.Hour)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes, "one is in flight")
		r.Settle(redisqtest.One, redisqtest.Failure(c, time.Hour))
		r.Pass(time.Hour)
		require.Equal(r, 1, r.Trim(redisqtest.KeepNothing).Lanes)
		require.NotContains(r, r.State().Lanes, redisqtest.EpOne)
	}},
	{Name: "a deleted lane with consumers is trimmed too", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Pulled)
		r.Publish(redisqtest.EpOne, "m1")
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustTake(redisqtest.One, redisqtest.EpOne, redisqtest.Named(redisqtest.EpOne, "m1"))[0]))
		r.Limit(redisqtest.EpOne, redisqtest.Pulled, redisqtest.Mode(dispatcher.LanePaused))
		r.Pass(2 * time.Hour)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes, "it is only paused")
		r.Limit(redisqtest.EpOne, redisqtest.Pulled, redisqtest.Mode(dispatcher.LaneDeleted))
		r.Pass(time.Hour)
		require.Zero(r, r.Trim(redisqtest.KeepAll).Lanes, "its ended deliveries are kept")
		require.Equal(r, 1, r.Trim(redisqtest.KeepNothing).Lanes)
		require.NotContains(r, r.State().Lanes, redisqtest.EpOne)
	}},
}

// CopyCases are about copies of limits. A copy may be old, or its endpoint may
// not exist.
var CopyCases = []redisqtest.Case{
	{Name: "a query of the paused lanes returns their versions, reasons, times and operators", Run: func(r *redisqtest.Rig) {
		require.Empty(r, stoppedLanes(r, 0))
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LanePaused))
		r.Limit(redisqtest.EpTwo)
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused), redisqtest.By("ops"))
		holdAll(r)
		want := []dispatcher.StoppedLane{
			{LaneVersion: dispatcher.LaneVersion{Lane: "a"}, Mode: dispatcher.LanePaused, Since: redisqtest.Start, By: "ops"},
			{LaneVersion: dispatcher.LaneVersion{Lane: redisqtest.EpOne, Version: 1}, Mode: dispatcher.LanePaused, Since: redisqtest.Start, By: dispatcher.System},
		}
		require.Equal(r, want, stoppedLanes(r, 0))
		r.Pass(time.Minute)
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LanePaused), redisqtest.Most(7))
		want[1].Version = 2
		require.Equal(r, want, stoppedLanes(r, 0), "the lane is paused from the same time")
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		want[1].Version, want[1].Mode, want[1].Since = 3, dispatcher.LaneDisabled, redisqtest.Start.Add(time.Minute)
		require.Equal(r, want, stoppedLanes(r, 0))
		r.Limit(redisqtest.EpOne)
		r.Resume("a")
		require.Empty(r, stoppedLanes(r, 0))
	}},
	{Name: "an older copy of the limits changes nothing", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LanePaused))
		r.Limit(redisqtest.EpOne)
		r.LimitAs(redisqtest.EpOne, dispatcher.LaneLimits{Version: 1, Mode: dispatcher.LanePaused}, false)
		require.Empty(r, stoppedLanes(r, 0))
	}},
	{Name: "each partition returns its own lanes, in pages", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		var want, got []dispatcher.Lane
		for _, lane := range redisqtest.ManyLanes(700) {
			r.Limit(lane, redisqtest.Mode(dispatcher.LanePaused))
			want = append(want, lane)
		}
		for n := range 4 {
			of := stoppedLanes(r, n)
			require.NotEmpty(r, of)
			for _, l := range of {
				got = append(got, l.Lane)
			}
		}
		slices.Sort(got)
		require.Equal(r, want, got)
	}},
	{Name: "a trimmed lane is not paused any more", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDeleted))
		r.Pass(2 * time.Hour)
		require.Equal(r, 1, r.Trim(redisqtest.KeepAll).Lanes)
		require.Empty(r, stoppedLanes(r, 0))
	}},
	{Name: "a trim returns the endpoints whose lanes it checked", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Limit(redisqtest.EpTwo)
		r.Limit(redisqtest.EpTwo, redisqtest.Most(7))
		r.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		require.Empty(r, r.Trim(redisqtest.KeepAll).Unused)
		r.Pass(2 * time.Hour)
		unused := r.Trim(redisqtest.KeepAll).Unused
		slices.SortFunc(unused, func(a, b dispatcher.LaneVersion) int { return strings.Compare(string(a.Lane), string(b.Lane)) })
		require.Equal(r, []dispatcher.LaneVersion{{Lane: redisqtest.EpOne, Version: 1}, {Lane: redisqtest.EpTwo, Version: 2}}, unused)
		require.Empty(r, r.Trim(redisqtest.KeepAll).Unused, "an hour later again")
	}},
	{Name: "a trim removes a copy without an endpoint together with its lane", Run: func(r *redisqtest.Rig) {
		for _, changes := range [][]redisqtest.LimitsChange{{}, {redisqtest.Mode(dispatcher.LanePaused)}} {
			r.Limit(redisqtest.EpOne, changes...)
			require.True(r, forgetLane(r, redisqtest.EpOne, r.Versions[redisqtest.EpOne], 0))
			require.NotContains(r, r.State().Lanes, redisqtest.EpOne)
			require.Empty(r, stoppedLanes(r, 0))
			require.False(r, r.LaneState(redisqtest.EpOne).Known)
		}
	}},
	{Name: "a paused lane without its endpoint is missing, and not paused any more", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LanePaused))
		r.MustChangeNothing(func() { require.False(r, forgetLane(r, redisqtest.EpOne, 1, time.Hour), "a create may be running") })
		r.Publish(redisqtest.EpOne, "m1", "m2")
		r.MustChangeNothing(func() { require.False(r, forgetLane(r, redisqtest.EpOne, 2, 0)) })
		require.False(r, forgetLane(r, redisqtest.EpOne, 1, time.Hour), "two wait")
		mustHold(r, dispatcher.WhyMissing, 2)
		mustWaitFor(r, "missing", redisqtest.EpOne, "m1", "m2")
		l := r.LaneState(redisqtest.EpOne)
		state, why := l.Standing()
		require.Equal(r, []any{dispatcher.StateLimited, dispatcher.WhyMissing}, []any{state, why})
		require.Empty(r, stoppedLanes(r, 0))
		require.Empty(r, r.ClaimAll(redisqtest.One))
		r.Limit(redisqtest.EpOne)
		require.Len(r, r.ClaimAll(redisqtest.One), 2, "it came back")
	}},
	{Name: "a trim keeps a copy that is young, of another version, or in use", Run: func(r *redisqtest.Rig) {
		r.Limit(redisqtest.EpOne)
		r.Pass(time.Minute)
		r.MustChangeNothing(func() {
			require.False(r, forgetLane(r, redisqtest.EpOne, 1, time.Hour))
			require.False(r, forgetLane(r, redisqtest.EpOne, 2, 0))
			require.False(r, forgetLane(r, redisqtest.EpTwo, 1, 0))
		})
		r.Publish(redisqtest.EpOne, "m1")
		r.MustChangeNothing(func() { require.False(r, forgetLane(r, redisqtest.EpOne, 1, 0)) })
		c := r.MustClaim(redisqtest.One, redisqtest.Named(redisqtest.EpOne, "m1"))
		r.MustChangeNothing(func() { require.False(r, forgetLane(r, redisqtest.EpOne, 1, 0)) })
		r.Settle(redisqtest.One, redisqtest.Success(c[0]))
		require.False(r, forgetLane(r, redisqtest.EpOne, 1, time.Minute), "the state is new")
		r.Pass(time.Minute)
		require.False(r, forgetLane(r, redisqtest.EpOne, 1, time.Minute), "a delivery is kept")
		r.Trim(redisqtest.KeepNothing)
		require.True(r, forgetLane(r, redisqtest.EpOne, 1, time.Minute))
	}},
}

// stoppedLanes returns all paused, disabled and deleted lanes of a partition by name.
func stoppedLanes(r *redisqtest.Rig, partition int) (all []dispatcher.StoppedLane) {
	r.Helper()
	for cursor := ""; ; {
		page, next, err := r.Queue.StoppedLanesIn(r.Ctx, partition, cursor)
		require.NoError(r, err)
		all = append(all, page...)
		if cursor = next; cursor == "" {
			break
		}
	}
	slices.SortFunc(all, func(a, b dispatcher.StoppedLane) int { return strings.Compare(string(a.Lane), string(b.Lane)) })
	return slices.Compact(all)
}

func forgetLane(r *redisqtest.Rig, lane dispatcher.Lane, version int64, age time.Duration) bool {
	r.Helper()
	done, err := r.Queue.ForgetLane(r.Ctx, redisqtest.One, dispatcher.LaneVersion{Lane: lane, Version: version}, age)
	require.NoError(r, err)
	return done
}
