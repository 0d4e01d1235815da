package archiver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// versions counts the endpoints that are kept, by their versions.
func (w *world) versions() map[int64]int {
	w.keeper.mu.Lock()
	defer w.keeper.mu.Unlock()
	n := map[int64]int{}
	for _, v := range w.keeper.endpoints {
		n[v]++
	}
	return n
}

// paused is what is held by the archive, and whether it was told that there is no endpoint.
func (w *world) paused() (holds []archive.Hold, empty bool) {
	w.keeper.mu.Lock()
	defer w.keeper.mu.Unlock()
	return w.keeper.holds, w.keeper.empty
}

// read is how many pages of endpoints were read, and how often what is held.
func (w *world) read() (pages, looks int) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return w.pages, w.looks
}

func TestManyEndpointsHoldUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		const many, pages = 32_000, 1000 // which take 10 s
		w.store.endpoints = many
		a, stop := w.start(t, "x")
		defer stop()
		pass(time.Second)
		w.happen(1, archive.Delivered, "meanwhile")
		a.Stirred()
		pass(time.Second)
		require.Less(t, len(w.versions()), many)
		require.Equal(t, []string{"1dmeanwhile"}, w.kept())
		for range 30 {
			pass(time.Second)
			require.Equal(t, 2, a.Status().Holds)
		}
		require.Equal(t, map[int64]int{0: many}, w.versions())
		n, _ := w.read()
		require.Equal(t, pages, n, "once")

		pass(1500 * time.Second)
		n, _ = w.read()
		require.Equal(t, pages, n, "nobody told of a change")
		w.do(func() { w.store.version = 1 })
		a.EndpointsChanged()
		pass(2 * time.Minute)
		require.Equal(t, map[int64]int{1: many}, w.versions())
		w.do(func() { w.store.version = 2 })
		pass(time.Hour)
		require.Equal(t, map[int64]int{2: many}, w.versions(), "of which it was not told")
		n, _ = w.read()
		require.LessOrEqual(t, n, 4*pages)
	})
}

func TestFewEndpointsAreLookedAtEachMinuteInWhichSomethingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.store.endpoints, w.store.holds = 3, []archive.Hold{{Lane: dispatcher.AllLanes}}
		a, stop := w.start(t, "x")
		defer stop()
		require.Equal(t, map[int64]int{}, w.versions())
		pass(time.Second)
		require.Equal(t, map[int64]int{0: 3}, w.versions())
		holds, empty := w.paused()
		require.Len(t, holds, 1)
		require.False(t, empty)
		// What is held is read at another time than at that of a look.
		pass(58 * time.Second)
		w.do(func() { w.keeper.away = true })
		pass(6 * time.Second)
		w.do(func() { w.keeper.away = false })
		pass(10 * time.Second)
		w.do(func() { w.store.version, w.store.holds = 1, nil })
		a.Stirred()
		pass(2 * time.Second)
		holds, _ = w.paused()
		require.Len(t, holds, 1, "a minute has not passed")
		pass(56 * time.Second)
		require.Equal(t, map[int64]int{1: 3}, w.versions())
		holds, _ = w.paused()
		require.Empty(t, holds)
		w.do(func() { w.store.endpoints = 0 })
		a.Stirred()
		pass(2 * time.Minute)
		_, empty = w.paused()
		require.True(t, empty)
	})
}

func TestAWalkThroughEndpointsThatFailedBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.store.endpoints = 3200
		_, stop := w.start(t, "x")
		defer stop()
		pass(200 * time.Millisecond)
		w.do(func() { w.keeper.away = true })
		pass(20 * time.Millisecond)
		w.do(func() { w.keeper.away, w.keeper.endpoints = false, map[string]int64{} })
		pass(10 * time.Second)
		require.Equal(t, map[int64]int{0: 3200}, w.versions())
	})
}
