package archive_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// archived are the versions of the endpoints that the archive has, without those that were
// deleted, and the lanes that it has as paused.
func (w *world) archived() (versions map[string]int64, paused []dispatcher.Lane) {
	w.keeper.mu.Lock()
	defer w.keeper.mu.Unlock()
	versions = map[string]int64{}
	for id, e := range w.keeper.endpoints {
		if !e.Deleted {
			versions[id] = e.Version
		}
	}
	return versions, slices.Sorted(maps.Keys(w.keeper.holds))
}

// endpoints has the store have so many endpoints of a version.
func (w *world) endpoints(n int, version int64) map[string]int64 {
	all := map[string]int64{}
	for i := range n {
		all[fmt.Sprint("ep_", i)] = version
	}
	w.do(func() { w.records = maps.Clone(all) })
	return all
}

func TestAChangeIsArchivedAsWhatHappensToDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		defer stop()
		pass(time.Second)
		w.endpoints(1, 1)
		w.change(0, "ep_0", 1)
		w.pause(1, "u_1", true)
		a.Wake()
		pass(time.Second)
		versions, paused := w.archived()
		require.Equal(t, map[string]int64{"ep_0": 1}, versions)
		require.Equal(t, []dispatcher.Lane{"u_1"}, paused)
		require.Equal(t, [2]archive.Position{{Seq: 1}, {Seq: 1}}, w.store.at, "the store was told")

		w.endpoints(1, 2)
		w.change(0, "ep_0", 2)
		w.pause(1, "u_1", false)
		a.Wake()
		pass(time.Second)
		versions, paused = w.archived()
		require.Equal(t, map[string]int64{"ep_0": 2}, versions)
		require.Empty(t, paused)
	})
}

func TestNothingIsArchivedBeforeTheChangeThatCameFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		defer stop()
		pass(time.Second)
		w.change(0, "ep_0", 1) // the endpoint itself is not there yet
		w.happen(0, archive.Delivered, "behind")
		w.happen(1, archive.Delivered, "elsewhere")
		a.Wake()
		pass(5 * time.Second)
		require.Equal(t, []string{"1delsewhere"}, w.kept())
		require.Zero(t, w.store.at[0])
		w.endpoints(1, 1) // without a word: the archiver looks again by itself
		pass(time.Second)
		require.Equal(t, []string{"0dbehind", "1delsewhere"}, w.kept())
		versions, _ := w.archived()
		require.Equal(t, map[string]int64{"ep_0": 1}, versions)
	})
}

func TestWhatHappensUntilTheStopIsArchived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		pass(time.Second)
		w.endpoints(1, 3)
		w.change(0, "ep_0", 3)
		w.pause(0, dispatcher.AllLanes, true)
		w.happen(1, archive.Delivered, "last")
		a.Wake()
		stop()
		require.Equal(t, []string{"1dlast"}, w.kept())
		versions, paused := w.archived()
		require.Equal(t, map[string]int64{"ep_0": 3}, versions)
		require.Equal(t, []dispatcher.Lane{dispatcher.AllLanes}, paused)
	})
}

func TestWhatTheLogDoesNotHaveIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		all := w.endpoints(100, 7)
		w.do(func() {
			w.store.paused["u_1"] = true
			w.keeper.endpoints["ep_gone"] = archive.Endpoint{ID: "ep_gone", Home: "h", Version: 1}
			w.keeper.endpoints["ep_lost"] = archive.Endpoint{ID: "ep_lost", Home: "before", Version: 1}
			w.keeper.holds["u_2"] = archive.PausedLane{Lane: "u_2", Epoch: "a"}
			w.keeper.holds["u_3"] = archive.PausedLane{Lane: "u_3", Epoch: "before"}
		})
		a, stop := w.start(t, "x")
		defer stop()
		pass(10 * time.Second)
		all["ep_lost"] = 1
		versions, paused := w.archived()
		require.Equal(t, all, versions, "the store deleted one, and lost the other one")
		require.Equal(t, []dispatcher.Lane{"u_1", "u_3"}, paused)
		require.Equal(t, 4, w.store.pages, "once for all partitions")

		all = w.endpoints(40, 8)
		a.Wake()
		pass(time.Hour)
		require.Equal(t, 4, w.store.pages, "the log has what changes")
		w.do(func() { w.store.gap[1] = archive.Position{Seq: 9}; w.store.paused["u_1"] = false })
		a.Wake()
		pass(10 * time.Second)
		all["ep_lost"] = 1
		versions, _ = w.archived()
		require.Equal(t, all, versions, "some of the log was cut")
	})
}

func TestManyEndpointsHoldUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		all := w.endpoints(9600, 1) // which take 3 s
		a, stop := w.start(t, "x")
		defer stop()
		pass(time.Second)
		w.happen(1, archive.Delivered, "meanwhile")
		a.Wake()
		pass(time.Second)
		versions, _ := w.archived()
		require.Less(t, len(versions), len(all))
		require.Equal(t, []string{"1dmeanwhile"}, w.kept())
		w.do(func() { require.Empty(t, w.missed, "no comparison has ended") })
		for range 30 {
			pass(time.Second)
			require.Equal(t, 2, a.Status().Partitions)
		}
		versions, _ = w.archived()
		require.Equal(t, all, versions)
		w.do(func() { require.Len(t, w.missed, 2) })
	})
}

func TestAComparisonOfEndpointsGoesOnAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		all := w.endpoints(3200, 1)
		_, stop := w.start(t, "x")
		defer stop()
		pass(200 * time.Millisecond)
		w.do(func() { w.keeper.away = true })
		pass(20 * time.Millisecond)
		w.do(func() { w.keeper.away = false })
		pass(20 * time.Second)
		versions, _ := w.archived()
		require.Equal(t, all, versions)
	})
}
