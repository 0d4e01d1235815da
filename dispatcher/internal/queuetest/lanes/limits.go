package lanes

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// LimitCases are about the copy of an endpoint's limits, and the number of
// deliveries in flight.
var LimitCases = []rig.Case{
	{Name: "an endpoint's lane without limits is not claimed from", Run: func(r *rig.Rig) {
		got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m1", rig.To(rig.EpOne)))
		require.Equal(r, rig.To(rig.EpOne), rig.Ready(got[0]))
		require.Equal(r, map[dispatcher.Lane]int64{rig.EpOne: 0}, rig.Versions(got[0]))
		r.Schedule(r.Entry("m2", rig.To(rig.EpOne), rig.Delay(time.Second)))
		r.Pass(time.Second)
		require.Equal(r, -1, r.Move().Weight)
		r.MustClaimNothing(rig.One)
		require.Equal(r, rig.IDs(rig.EpOne, "m1", "m2"), r.State().Ready[rig.EpOne])
		_, hints := r.LimitAs(rig.EpOne, r.NewLimits(rig.EpOne), false)
		require.Equal(r, r.Setup.Weight(stored.NewLane, 0), hints[0].Weight)
		require.Equal(r, rig.IDs(rig.EpOne, "m1", "m2"), rig.ClaimedIDs(r.Claim(rig.One, 64)))
	}},
	{Name: "limits remain after the work of their lane has ended", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Publish(rig.EpOne, "m1", "m2")
		c := r.Claim(rig.One, 2)
		r.MustSettle(rig.One, rig.Success(c[0]))
		r.MustSettle(rig.One, rig.Success(c[1]))
		r.Pass(time.Hour)
		require.Zero(r, r.Trim(rig.KeepAll).Lanes)
		require.True(r, r.State().Lanes[rig.EpOne].Limited, "an endpoint's limits are never trimmed")
	}},
	{Name: "claim and schedule return the version of a lane's limits", Run: func(r *rig.Rig) {
		for v := int64(1); v <= 3; v++ {
			r.Limit(rig.EpOne)
			id := r.NewID()
			got := r.Schedule(r.Entry(id, rig.To(rig.EpOne, "a")))
			require.Equal(r, map[dispatcher.Lane]int64{rig.EpOne: v}, rig.Versions(got[0]))
			for _, c := range r.Claim(rig.One, 2) {
				want := int64(0)
				if c.ID.Lane == rig.EpOne {
					want = v
				}
				require.Equal(r, want, c.Version, "%s", c.ID)
				r.MustSettle(rig.One, rig.Success(c))
			}
		}
		require.Empty(r, rig.Versions(r.Schedule(r.Entry("plain", rig.To("a")))[0]))
	}},
	{Name: "each endpoint's lane of a fan-out has its own version", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Limit(rig.EpOne)
		r.Limit(rig.EpTwo)
		got := r.ScheduleFor(rig.One, 512, 64, rig.Fan(r.Entry("m1", rig.To(rig.EpOne, rig.EpTwo, "a"))))
		require.Equal(r, map[dispatcher.Lane]int64{rig.EpOne: 2, rig.EpTwo: 1}, rig.Versions(got[0]))
	}},
	{Name: "older limits, or the same limits again, change nothing", Run: func(r *rig.Rig) {
		r.LimitAs(rig.EpOne, dispatcher.LaneLimits{Version: 3, MaxInFlight: 7, Interval: time.Millisecond, Ordered: true}, false)
		r.Publish(rig.EpOne, "m1")
		r.MustChangeNothing(func() {
			for v := int64(1); v <= 3; v++ {
				r.LimitAs(rig.EpOne, dispatcher.LaneLimits{Version: v, Mode: dispatcher.LanePaused}, false)
			}
		})
		want := dispatcher.LaneLimits{Version: 3, MaxInFlight: 7, Interval: time.Millisecond, Ordered: true}
		require.Equal(r, want, r.State().Lanes[rig.EpOne].Limits)
		require.Equal(r, want, r.LaneState(rig.EpOne).Limits)
	}},
	{Name: "a deletion counts even if a failover lost earlier changes of the endpoint", Run: func(r *rig.Rig) {
		r.LimitAs(rig.EpOne, dispatcher.LaneLimits{Version: 9, Mode: dispatcher.LanePaused}, false)
		r.Publish(rig.EpOne, "m1")
		r.LimitAs(rig.EpOne, dispatcher.LaneLimits{Version: 7, Mode: dispatcher.LaneDeleted}, false)
		want := dispatcher.LaneLimits{Version: 9, Mode: dispatcher.LaneDeleted}
		require.Equal(r, want, r.State().Lanes[rig.EpOne].Limits)
		r.LimitAs(rig.EpOne, dispatcher.LaneLimits{Version: 8, Mode: dispatcher.LanePaused}, false)
		require.Equal(r, want, r.State().Lanes[rig.EpOne].Limits)
	}},
	{Name: "a call closes a breaker even if its limits are not newer", Setup: stored.Setup{Breaker: 1}, Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.MustSettle(rig.One, rig.Blamed(rig.Failure(r.TakeNew(rig.EpOne), time.Hour)))
		_, hints := r.LimitAs(rig.EpOne, dispatcher.LaneLimits{Version: 1, Mode: dispatcher.LanePaused}, true)
		require.Equal(r, rig.To(rig.EpOne), hints[0].Closed)
		lane := r.State().Lanes[rig.EpOne]
		require.Zero(r, lane.Opened)
		require.Equal(r, dispatcher.LaneNormal, lane.Limits.Mode)
	}},
	{Name: "limits of a lane without an endpoint are always written, and empty ones are removed", Run: func(r *rig.Rig) {
		r.Limit("a", rig.Mode(dispatcher.LanePaused), rig.Most(3))
		require.Equal(r, dispatcher.LaneLimits{MaxInFlight: 3, Mode: dispatcher.LanePaused}, r.State().Lanes["a"].Limits)
		r.Limit("a", rig.Mode(dispatcher.LanePaused))
		require.Equal(r, dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, r.State().Lanes["a"].Limits)
		r.Resume("a")
		require.False(r, r.State().Lanes["a"].Limited)
	}},
	{Name: "a limit above the store's default applies to all instances together", Setup: stored.Setup{LaneMaxInFlight: 3}, Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Most(5))
		for range 8 {
			r.Succeed(rig.EpOne)
		}
		require.Equal(r, 5, r.State().Lanes[rig.EpOne].Window)
		r.PublishMany(rig.EpOne, 9)
		require.Len(r, r.Claim(rig.One, 3), 3)
		require.Len(r, r.Claim(rig.Two, 64), 2)
		r.MustClaimNothing(rig.One)
		require.Equal(r, "limit", r.Inspect(rig.Named(rig.EpOne, "n00017")).WaitingFor)
	}},
	{Name: "a limit below the first window applies at once", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Most(1))
		got := r.ScheduleFor(rig.One, 512, 64, r.Entry("m1", rig.To(rig.EpOne)), r.Entry("m2", rig.To(rig.EpOne)))
		require.Equal(r, rig.To(rig.EpOne), rig.Leased(got[0]))
		require.Equal(r, rig.To(rig.EpOne), rig.Ready(got[1]))
		r.MustClaimNothing(rig.Two)
		require.Equal(r, 1, r.State().Lanes[rig.EpOne].Window, "it begins there")
	}},
	{Name: "a new lane starts with its limits when it is resumed", Setup: stored.Setup{LaneMaxInFlight: 1}, Run: func(r *rig.Rig) {
		r.LimitAs(rig.EpOne, r.NewLimits(rig.EpOne, rig.Most(5)), true)
		require.False(r, r.State().Lanes[rig.EpOne].Known, "nothing needs to be cleared")
		r.PublishMany(rig.EpOne, 3)
		require.Len(r, r.Claim(rig.One, 64), 2)
	}},
	{Name: "no attempt begins under a lowered limit until enough have ended", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		for range 4 {
			r.Succeed(rig.EpOne)
		}
		r.PublishMany(rig.EpOne, 8)
		claimed := r.Claim(rig.One, 3)
		r.Limit(rig.EpOne, rig.Most(2))
		r.MustClaimNothing(rig.Two)
		r.MustSettle(rig.One, rig.Failure(claimed[0], time.Hour))
		r.MustClaimNothing(rig.Two)
		r.MustSettle(rig.One, rig.Failure(claimed[1], time.Hour))
		require.Len(r, r.Claim(rig.Two, 64), 1)
	}},
	{Name: "a raised limit lets more attempts begin at once, and a hint reports it", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.PublishMany(rig.EpOne, 3)
		r.Limit(rig.EpOne, rig.Ordered)
		require.Len(r, r.Claim(rig.One, 64), 1)
		w := r.Watch(rig.Two)
		_, hints := r.LimitAs(rig.EpOne, r.NewLimits(rig.EpOne), false)
		require.Equal(r, r.Setup.Weight(stored.NewLane, 1), hints[0].Weight, "one in flight, and never seen")
		require.Equal(r, r.Setup.Weight(stored.NewLane, 1), w.Next().Weight)
		require.Len(r, r.Claim(rig.Two, 64), 1)
	}},
	{Name: "the window keeps to a limit that was lowered while it grew", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		for range 8 {
			r.Succeed(rig.EpOne)
		}
		r.Limit(rig.EpOne, rig.Most(4))
		fallSilent(r, rig.EpOne)
		require.Equal(r, 2, r.State().Lanes[rig.EpOne].Window, "half of its old limit")
	}},
	{Name: "a change of limits returns the counts of the lane", Run: func(r *rig.Rig) {
		require.Equal(r, dispatcher.LaneCount{}, r.Limit(rig.EpOne))
		r.Publish(rig.EpOne, "m1", "m2", "m3")
		r.Schedule(r.Entry("m4", rig.To(rig.EpOne), rig.Delay(time.Hour)))
		r.PublishKeyed(rig.EpOne, "k", "m5", "m6")
		r.Claim(rig.One, 64)
		require.Equal(r, dispatcher.LaneCount{InFlight: 2, Waiting: 4}, r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDeleted)))
	}},
	{Name: "limits are kept by the lane's own partition", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		for _, lane := range []dispatcher.Lane{rig.EpOne, rig.EpTwo, "a", "b", "c"} {
			r.Limit(lane, rig.Most(1))
			r.PublishMany(lane, 3)
		}
		require.Len(r, r.ClaimAll(rig.One), 5)
	}},
	{Name: "a lane with limits is not trimmed, and one without limits is trimmed an hour later", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Most(3))
		r.Limit("a", rig.Mode(dispatcher.LanePaused))
		r.Pass(2 * time.Hour)
		require.Zero(r, r.Trim(rig.KeepAll).Lanes)
		state := r.State()
		require.True(r, state.Lanes[rig.EpOne].Limited)
		require.Equal(r, dispatcher.LanePaused, state.Lanes["a"].Limits.Mode)
		r.Resume("a")
		r.Pass(time.Hour)
		require.Equal(r, 1, r.Trim(rig.KeepAll).Lanes)
		require.NotContains(r, r.State().Lanes, dispatcher.Lane("a"))
	}},
	{Name: "a lane is trimmed even if its limits were set and removed", Run: func(r *rig.Rig) {
		r.Succeed("a")
		r.Pass(time.Hour - time.Millisecond)
		r.Limit("a", rig.Mode(dispatcher.LanePaused))
		r.Resume("a")
		r.Pass(time.Millisecond)
		require.Equal(r, 1, r.Trim(rig.KeepNothing).Lanes)
	}},
	{Name: "a deleted lane is trimmed when nothing is left in it", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Ordered)
		r.Publish(rig.EpOne, "m1", "m2")
		c := r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))[0]
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDeleted))
		r.Pass(time.Hour)
		require.Zero(r, r.Trim(rig.KeepAll).Lanes, "one is in flight")
		r.Settle(rig.One, rig.Failure(c, time.Hour))
		r.Pass(time.Hour)
		require.Equal(r, 1, r.Trim(rig.KeepNothing).Lanes)
		require.NotContains(r, r.State().Lanes, rig.EpOne)
	}},
	{Name: "a deleted lane with consumers is trimmed too", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Pulled)
		r.Publish(rig.EpOne, "m1")
		r.MustSettle(rig.One, rig.Success(r.MustTake(rig.One, rig.EpOne, rig.Named(rig.EpOne, "m1"))[0]))
		r.Limit(rig.EpOne, rig.Pulled, rig.Mode(dispatcher.LanePaused))
		r.Pass(2 * time.Hour)
		require.Zero(r, r.Trim(rig.KeepAll).Lanes, "it is only paused")
		r.Limit(rig.EpOne, rig.Pulled, rig.Mode(dispatcher.LaneDeleted))
		r.Pass(time.Hour)
		require.Zero(r, r.Trim(rig.KeepAll).Lanes, "its ended deliveries are kept")
		require.Equal(r, 1, r.Trim(rig.KeepNothing).Lanes)
		require.NotContains(r, r.State().Lanes, rig.EpOne)
	}},
}

// CopyCases are about copies of limits. A copy may be old, or its endpoint may
// not exist.
var CopyCases = []rig.Case{
	{Name: "a query of the paused lanes returns their versions, reasons, times and operators", Run: func(r *rig.Rig) {
		require.Empty(r, stoppedLanes(r, 0))
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LanePaused))
		r.Limit(rig.EpTwo)
		r.Limit("a", rig.Mode(dispatcher.LanePaused), rig.By("ops"))
		holdAll(r)
		want := []dispatcher.StoppedLane{
			{LaneVersion: dispatcher.LaneVersion{Lane: "a"}, Mode: dispatcher.LanePaused, Since: rig.Start, By: "ops"},
			{LaneVersion: dispatcher.LaneVersion{Lane: rig.EpOne, Version: 1}, Mode: dispatcher.LanePaused, Since: rig.Start, By: dispatcher.System},
		}
		require.Equal(r, want, stoppedLanes(r, 0))
		r.Pass(time.Minute)
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LanePaused), rig.Most(7))
		want[1].Version = 2
		require.Equal(r, want, stoppedLanes(r, 0), "the lane is paused from the same time")
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDisabled))
		want[1].Version, want[1].Mode, want[1].Since = 3, dispatcher.LaneDisabled, rig.Start.Add(time.Minute)
		require.Equal(r, want, stoppedLanes(r, 0))
		r.Limit(rig.EpOne)
		r.Resume("a")
		require.Empty(r, stoppedLanes(r, 0))
	}},
	{Name: "an older copy of the limits changes nothing", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LanePaused))
		r.Limit(rig.EpOne)
		r.LimitAs(rig.EpOne, dispatcher.LaneLimits{Version: 1, Mode: dispatcher.LanePaused}, false)
		require.Empty(r, stoppedLanes(r, 0))
	}},
	{Name: "each partition returns its own lanes, in pages", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		var want, got []dispatcher.Lane
		for _, lane := range rig.ManyLanes(700) {
			r.Limit(lane, rig.Mode(dispatcher.LanePaused))
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
	{Name: "a trimmed lane is not paused any more", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LaneDeleted))
		r.Pass(2 * time.Hour)
		require.Equal(r, 1, r.Trim(rig.KeepAll).Lanes)
		require.Empty(r, stoppedLanes(r, 0))
	}},
	{Name: "a trim returns the endpoints whose lanes it checked", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Limit(rig.EpTwo)
		r.Limit(rig.EpTwo, rig.Most(7))
		r.Limit("a", rig.Mode(dispatcher.LanePaused))
		require.Empty(r, r.Trim(rig.KeepAll).Unused)
		r.Pass(2 * time.Hour)
		unused := r.Trim(rig.KeepAll).Unused
		slices.SortFunc(unused, func(a, b dispatcher.LaneVersion) int { return strings.Compare(string(a.Lane), string(b.Lane)) })
		require.Equal(r, []dispatcher.LaneVersion{{Lane: rig.EpOne, Version: 1}, {Lane: rig.EpTwo, Version: 2}}, unused)
		require.Empty(r, r.Trim(rig.KeepAll).Unused, "an hour later again")
	}},
	{Name: "a trim removes a copy without an endpoint together with its lane", Run: func(r *rig.Rig) {
		for _, changes := range [][]rig.LimitsChange{{}, {rig.Mode(dispatcher.LanePaused)}} {
			r.Limit(rig.EpOne, changes...)
			require.True(r, forgetLane(r, rig.EpOne, r.Versions[rig.EpOne], 0))
			require.NotContains(r, r.State().Lanes, rig.EpOne)
			require.Empty(r, stoppedLanes(r, 0))
			require.False(r, r.LaneState(rig.EpOne).Known)
		}
	}},
	{Name: "a paused lane without its endpoint is missing, and not paused any more", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Mode(dispatcher.LanePaused))
		r.MustChangeNothing(func() { require.False(r, forgetLane(r, rig.EpOne, 1, time.Hour), "a create may be running") })
		r.Publish(rig.EpOne, "m1", "m2")
		r.MustChangeNothing(func() { require.False(r, forgetLane(r, rig.EpOne, 2, 0)) })
		require.False(r, forgetLane(r, rig.EpOne, 1, time.Hour), "two wait")
		mustHold(r, dispatcher.WhyMissing, 2)
		mustWaitFor(r, "missing", rig.EpOne, "m1", "m2")
		l := r.LaneState(rig.EpOne)
		state, why := l.Standing()
		require.Equal(r, []any{dispatcher.StateLimited, dispatcher.WhyMissing}, []any{state, why})
		require.Empty(r, stoppedLanes(r, 0))
		require.Empty(r, r.ClaimAll(rig.One))
		r.Limit(rig.EpOne)
		require.Len(r, r.ClaimAll(rig.One), 2, "it came back")
	}},
	{Name: "a trim keeps a copy that is young, of another version, or in use", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Pass(time.Minute)
		r.MustChangeNothing(func() {
			require.False(r, forgetLane(r, rig.EpOne, 1, time.Hour))
			require.False(r, forgetLane(r, rig.EpOne, 2, 0))
			require.False(r, forgetLane(r, rig.EpTwo, 1, 0))
		})
		r.Publish(rig.EpOne, "m1")
		r.MustChangeNothing(func() { require.False(r, forgetLane(r, rig.EpOne, 1, 0)) })
		c := r.MustClaim(rig.One, rig.Named(rig.EpOne, "m1"))
		r.MustChangeNothing(func() { require.False(r, forgetLane(r, rig.EpOne, 1, 0)) })
		r.Settle(rig.One, rig.Success(c[0]))
		require.False(r, forgetLane(r, rig.EpOne, 1, time.Minute), "the state is new")
		r.Pass(time.Minute)
		require.False(r, forgetLane(r, rig.EpOne, 1, time.Minute), "a delivery is kept")
		r.Trim(rig.KeepNothing)
		require.True(r, forgetLane(r, rig.EpOne, 1, time.Minute))
	}},
}

// stoppedLanes returns all paused, disabled and deleted lanes of a partition by name.
func stoppedLanes(r *rig.Rig, partition int) (all []dispatcher.StoppedLane) {
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

func forgetLane(r *rig.Rig, lane dispatcher.Lane, version int64, age time.Duration) bool {
	r.Helper()
	done, err := r.Queue.ForgetLane(r.Ctx, rig.One, dispatcher.LaneVersion{Lane: lane, Version: version}, age)
	require.NoError(r, err)
	return done
}
