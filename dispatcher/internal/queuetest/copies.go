package queuetest

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// copyCases are about copies of limits. A copy may be old, or its endpoint may
// not exist.
var copyCases = []testCase{
	{name: "held lanes are told with their versions, why, since when and by whom", run: func(r *rig) {
		require.Empty(r, r.heldLanes(0))
		r.limit(epOne, held(dispatcher.HeldPaused))
		r.limit(epTwo)
		r.limit("a", held(dispatcher.HeldPaused), by("ops"))
		r.holdAll()
		want := []dispatcher.HeldLane{
			{LaneVersion: dispatcher.LaneVersion{Lane: "a"}, Held: dispatcher.HeldPaused, Since: start, By: "ops"},
			{LaneVersion: dispatcher.LaneVersion{Lane: epOne, Version: 1}, Held: dispatcher.HeldPaused, Since: start, By: dispatcher.System},
		}
		require.Equal(r, want, r.heldLanes(0))
		r.pass(time.Minute)
		r.limit(epOne, held(dispatcher.HeldPaused), most(7))
		want[1].Version = 2
		require.Equal(r, want, r.heldLanes(0), "it is held since then still")
		r.limit(epOne, held(dispatcher.HeldDisabled))
		want[1].Version, want[1].Held, want[1].Since = 3, dispatcher.HeldDisabled, start.Add(time.Minute)
		require.Equal(r, want, r.heldLanes(0))
		r.limit(epOne)
		r.resume("a")
		require.Empty(r, r.heldLanes(0))
	}},
	{name: "an older copy changes nothing about that", run: func(r *rig) {
		r.limit(epOne, held(dispatcher.HeldPaused))
		r.limit(epOne)
		r.limitAs(epOne, dispatcher.LaneLimits{Version: 1, Held: dispatcher.HeldPaused}, false)
		require.Empty(r, r.heldLanes(0))
	}},
	{name: "each partition tells its own, in pages", setup: Setup{Partitions: 4}, run: func(r *rig) {
		var want, got []dispatcher.Lane
		for _, lane := range manyLanes(700) {
			r.limit(lane, held(dispatcher.HeldPaused))
			want = append(want, lane)
		}
		for n := range 4 {
			of := r.heldLanes(n)
			require.NotEmpty(r, of)
			for _, l := range of {
				got = append(got, l.Lane)
			}
		}
		slices.Sort(got)
		require.Equal(r, want, got)
	}},
	{name: "a lane that is trimmed is held no more", run: func(r *rig) {
		r.limit(epOne, held(dispatcher.HeldDeleted))
		r.pass(2 * time.Hour)
		require.Equal(r, 1, r.trim(keepAll).Lanes)
		require.Empty(r, r.heldLanes(0))
	}},
	{name: "a trim tells which endpoints' lanes it looked at", run: func(r *rig) {
		r.limit(epOne)
		r.limit(epTwo)
		r.limit(epTwo, most(7))
		r.limit("a", held(dispatcher.HeldPaused))
		require.Empty(r, r.trim(keepAll).Looked)
		r.pass(2 * time.Hour)
		looked := r.trim(keepAll).Looked
		slices.SortFunc(looked, func(a, b dispatcher.LaneVersion) int { return strings.Compare(string(a.Lane), string(b.Lane)) })
		require.Equal(r, []dispatcher.LaneVersion{{Lane: epOne, Version: 1}, {Lane: epTwo, Version: 2}}, looked)
		require.Empty(r, r.trim(keepAll).Looked, "an hour later again")
	}},
	{name: "a copy without an endpoint is forgotten with its lane", run: func(r *rig) {
		for _, changes := range [][]limitsChange{{}, {held(dispatcher.HeldPaused)}} {
			r.limit(epOne, changes...)
			require.True(r, r.forgetLane(epOne, r.versions[epOne], 0))
			require.NotContains(r, r.State().Lanes, epOne)
			require.Empty(r, r.heldLanes(0))
			require.False(r, r.laneState(epOne).Known)
		}
	}},
	{name: "a copy that is young, of another version, or in use is kept", run: func(r *rig) {
		r.limit(epOne)
		r.pass(time.Minute)
		r.mustChangeNothing(func() {
			require.False(r, r.forgetLane(epOne, 1, time.Hour))
			require.False(r, r.forgetLane(epOne, 2, 0))
			require.False(r, r.forgetLane(epTwo, 1, 0))
		})
		r.publish(epOne, "m1")
		r.mustChangeNothing(func() { require.False(r, r.forgetLane(epOne, 1, 0)) })
		c := r.mustClaim(one, named(epOne, "m1"))
		r.mustChangeNothing(func() { require.False(r, r.forgetLane(epOne, 1, 0)) })
		r.settle(one, success(c[0]))
		require.False(r, r.forgetLane(epOne, 1, time.Minute), "its state is new")
		r.pass(time.Minute)
		require.True(r, r.forgetLane(epOne, 1, time.Minute))
	}},
}

// heldLanes reads all held lanes of a partition, by their names.
func (r *rig) heldLanes(partition int) (all []dispatcher.HeldLane) {
	r.Helper()
	for cursor := ""; ; {
		page, next, err := r.Queue.HeldLanesIn(r.ctx, partition, cursor)
		require.NoError(r, err)
		all = append(all, page...)
		if cursor = next; cursor == "" {
			break
		}
	}
	slices.SortFunc(all, func(a, b dispatcher.HeldLane) int { return strings.Compare(string(a.Lane), string(b.Lane)) })
	return slices.Compact(all)
}

func (r *rig) forgetLane(lane dispatcher.Lane, version int64, age time.Duration) bool {
	r.Helper()
	done, err := r.Queue.ForgetLane(r.ctx, one, dispatcher.LaneVersion{Lane: lane, Version: version}, age)
	require.NoError(r, err)
	return done
}
