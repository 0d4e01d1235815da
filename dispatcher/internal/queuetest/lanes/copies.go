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

// CopyCases are about copies of limits. A copy may be old, or its endpoint may
// not exist.
var CopyCases = []rig.Case{
	{Name: "a query of the paused lanes returns their versions, reasons, times and operators", Run: func(r *rig.Rig) {
		require.Empty(r, heldLanes(r, 0))
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldPaused))
		r.Limit(rig.EpTwo)
		r.Limit("a", rig.Held(dispatcher.HeldPaused), rig.By("ops"))
		holdAll(r)
		want := []dispatcher.HeldLane{
			{LaneVersion: dispatcher.LaneVersion{Lane: "a"}, Held: dispatcher.HeldPaused, Since: rig.Start, By: "ops"},
			{LaneVersion: dispatcher.LaneVersion{Lane: rig.EpOne, Version: 1}, Held: dispatcher.HeldPaused, Since: rig.Start, By: dispatcher.System},
		}
		require.Equal(r, want, heldLanes(r, 0))
		r.Pass(time.Minute)
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldPaused), rig.Most(7))
		want[1].Version = 2
		require.Equal(r, want, heldLanes(r, 0), "the lane is paused from the same time")
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldDisabled))
		want[1].Version, want[1].Held, want[1].Since = 3, dispatcher.HeldDisabled, rig.Start.Add(time.Minute)
		require.Equal(r, want, heldLanes(r, 0))
		r.Limit(rig.EpOne)
		r.Resume("a")
		require.Empty(r, heldLanes(r, 0))
	}},
	{Name: "an older copy of the limits changes nothing", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldPaused))
		r.Limit(rig.EpOne)
		r.LimitAs(rig.EpOne, dispatcher.LaneLimits{Version: 1, Held: dispatcher.HeldPaused}, false)
		require.Empty(r, heldLanes(r, 0))
	}},
	{Name: "each partition returns its own lanes, in pages", Setup: stored.Setup{Partitions: 4}, Run: func(r *rig.Rig) {
		var want, got []dispatcher.Lane
		for _, lane := range rig.ManyLanes(700) {
			r.Limit(lane, rig.Held(dispatcher.HeldPaused))
			want = append(want, lane)
		}
		for n := range 4 {
			of := heldLanes(r, n)
			require.NotEmpty(r, of)
			for _, l := range of {
				got = append(got, l.Lane)
			}
		}
		slices.Sort(got)
		require.Equal(r, want, got)
	}},
	{Name: "a trimmed lane is not paused any more", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldDeleted))
		r.Pass(2 * time.Hour)
		require.Equal(r, 1, r.Trim(rig.KeepAll).Lanes)
		require.Empty(r, heldLanes(r, 0))
	}},
	{Name: "a trim returns the endpoints whose lanes it checked", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne)
		r.Limit(rig.EpTwo)
		r.Limit(rig.EpTwo, rig.Most(7))
		r.Limit("a", rig.Held(dispatcher.HeldPaused))
		require.Empty(r, r.Trim(rig.KeepAll).Looked)
		r.Pass(2 * time.Hour)
		looked := r.Trim(rig.KeepAll).Looked
		slices.SortFunc(looked, func(a, b dispatcher.LaneVersion) int { return strings.Compare(string(a.Lane), string(b.Lane)) })
		require.Equal(r, []dispatcher.LaneVersion{{Lane: rig.EpOne, Version: 1}, {Lane: rig.EpTwo, Version: 2}}, looked)
		require.Empty(r, r.Trim(rig.KeepAll).Looked, "an hour later again")
	}},
	{Name: "a trim removes a copy without an endpoint together with its lane", Run: func(r *rig.Rig) {
		for _, changes := range [][]rig.LimitsChange{{}, {rig.Held(dispatcher.HeldPaused)}} {
			r.Limit(rig.EpOne, changes...)
			require.True(r, forgetLane(r, rig.EpOne, r.Versions[rig.EpOne], 0))
			require.NotContains(r, r.State().Lanes, rig.EpOne)
			require.Empty(r, heldLanes(r, 0))
			require.False(r, r.LaneState(rig.EpOne).Known)
		}
	}},
	{Name: "a paused lane without its endpoint is missing, and not paused any more", Run: func(r *rig.Rig) {
		r.Limit(rig.EpOne, rig.Held(dispatcher.HeldPaused))
		r.MustChangeNothing(func() { require.False(r, forgetLane(r, rig.EpOne, 1, time.Hour), "a create may be running") })
		r.Publish(rig.EpOne, "m1", "m2")
		r.MustChangeNothing(func() { require.False(r, forgetLane(r, rig.EpOne, 2, 0)) })
		require.False(r, forgetLane(r, rig.EpOne, 1, time.Hour), "two wait")
		mustHold(r, dispatcher.WhyMissing, 2)
		mustWaitFor(r, "missing", rig.EpOne, "m1", "m2")
		l := r.LaneState(rig.EpOne)
		state, why := l.Standing()
		require.Equal(r, []any{dispatcher.StateLimited, dispatcher.WhyMissing}, []any{state, why})
		require.Empty(r, heldLanes(r, 0))
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

// heldLanes returns all paused, disabled and deleted lanes of a partition by name.
func heldLanes(r *rig.Rig, partition int) (all []dispatcher.HeldLane) {
	r.Helper()
	for cursor := ""; ; {
		page, next, err := r.Queue.HeldLanesIn(r.Ctx, partition, cursor)
		require.NoError(r, err)
		all = append(all, page...)
		if cursor = next; cursor == "" {
			break
		}
	}
	slices.SortFunc(all, func(a, b dispatcher.HeldLane) int { return strings.Compare(string(a.Lane), string(b.Lane)) })
	return slices.Compact(all)
}

func forgetLane(r *rig.Rig, lane dispatcher.Lane, version int64, age time.Duration) bool {
	r.Helper()
	done, err := r.Queue.ForgetLane(r.Ctx, rig.One, dispatcher.LaneVersion{Lane: lane, Version: version}, age)
	require.NoError(r, err)
	return done
}
