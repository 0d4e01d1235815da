package archive_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

func TestWhatHappensIsArchivedSoonAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		defer stop()
		for n := range 10 {
			w.happen(n%2, archive.Delivered, fmt.Sprint(n))
			a.Wake()
		}
		pass(time.Second)
		require.Equal(t, []string{"0d0", "0d2", "0d4", "0d6", "0d8", "1d1", "1d3", "1d5", "1d7", "1d9"}, w.kept())
		require.Equal(t, archive.Position{Seq: 5}, w.store.at[1], "the store was told")
		require.True(t, a.Status().Up)
		require.EqualValues(t, 10, a.Status().Events)
		require.Equal(t, 1, w.cared)

		w.happen(0, archive.Dead, "unheard") // without a word
		pass(time.Minute)
		require.Contains(t, w.kept(), "0xunheard")
	})
}

func TestAnAnswerThatIsLostDoublesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.lies, w.deaf = 3, 2
		a, stop := w.start(t, "x")
		defer stop()
		for n := range 20 {
			w.happen(0, archive.Retry, fmt.Sprint(n))
		}
		a.Wake()
		pass(time.Minute)
		require.Len(t, w.kept(), 20)
		require.Equal(t, archive.Position{Seq: 20}, w.store.at[0], "the store was told again")
	})
}

func TestAnotherInstanceGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		first, stop := w.start(t, "x")
		second, stopSecond := w.start(t, "y")
		defer stopSecond()
		both := func(id string) {
			w.happen(0, archive.Delivered, id)
			first.Wake()
			second.Wake()
			pass(time.Second)
		}
		both("a")
		require.Equal(t, []int{2, 0}, []int{first.Status().Partitions, second.Status().Partitions})
		w.do(func() { w.rows[0].until, w.rows[1].until = time.Time{}, time.Time{} }) // as if x had not been heard of for a while
		_, err := w.Lease(t.Context(), "y", []archive.Want{{Partition: 0, Epoch: "a"}, {Partition: 1, Epoch: "b"}})
		require.NoError(t, err)
		both("b") // x writes, and is told that it may not
		pass(5 * time.Second)
		both("c")
		require.Equal(t, []int{0, 2}, []int{first.Status().Partitions, second.Status().Partitions})
		stop()
		both("d")
		require.Equal(t, []string{"0da", "0db", "0dc", "0dd"}, w.kept())
	})
}

func TestOneThatStopsGivesUpWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		_, stop := w.start(t, "x")
		stop()
		second, stop := w.start(t, "y")
		defer stop()
		require.Equal(t, 2, second.Status().Partitions, "without waiting")
	})
}

// The archive failed just before the stop, so the next try is still to come. Without the last try, the
// changes would only be in the store until another instance runs.
func TestAStopArchivesTheRestThoughTheLastTryFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		w.do(func() { w.keeper.away = true })
		w.happen(0, archive.Delivered, "a")
		a.Wake()
		pass(time.Second)
		require.False(t, a.Status().Up)
		w.do(func() { w.keeper.away = false })
		stop()
		require.Equal(t, []string{"0da"}, w.kept())
	})
}

// An archive that was never reached would only delay the stop.
func TestAStopDoesNotTryAnArchiveThatWasNeverReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.keeper.away = true
		_, stop := w.start(t, "x")
		stop()
		require.NotContains(t, w.logged.String(), "archiving the last changes failed")
	})
}

func TestAnArchiveThatIsAwayIsToldOnceAndCaughtUpWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		defer stop()
		w.do(func() { w.keeper.away = true })
		for n := range 100 {
			w.happen(n%2, archive.Delivered, fmt.Sprint(n))
			a.Wake()
			pass(time.Second)
		}
		require.False(t, a.Status().Up)
		require.ErrorIs(t, a.Status().Err, archive.ErrUnavailable)
		require.Empty(t, w.kept())
		w.do(func() { w.keeper.away = false })
		pass(10 * time.Second)
		require.Len(t, w.kept(), 100)
		require.Equal(t, 1, strings.Count(w.logged.String(), "archive lost"), w.logged.String())
		require.Equal(t, 1, strings.Count(w.logged.String(), "archive back"))
	})
}

func TestTablesOfAnotherVersionAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.older = true
		a, stop := w.start(t, "x")
		defer stop()
		require.ErrorIs(t, a.Status().Err, archive.ErrVersion)
		w.do(func() { w.older = false })
		pass(2 * time.Minute)
		require.True(t, a.Status().Up)
	})
}

func TestAStoreThatLostItsTailIsToldAgainAndToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		defer stop()
		for n := range 5 {
			w.happen(0, archive.Delivered, fmt.Sprint(n))
		}
		a.Wake()
		pass(time.Second)
		w.do(func() { w.at[0], w.tailLost[0] = archive.Position{Seq: 2}, true })
		w.happen(0, archive.Delivered, "new")
		a.Wake()
		pass(time.Second)
		require.Equal(t, archive.Position{Seq: 6}, w.store.at[0])
		var said []uint64
		for _, p := range w.said {
			said = append(said, p.To.Seq)
		}
		require.Equal(t, []uint64{3, 5, 5, 6}, said, "again before anything is read")
		require.Equal(t, []string{"0d0", "0d1", "0d2", "0d3", "0d4", "0dnew"}, w.kept())
		require.Len(t, w.news, 1)
		require.Equal(t, "tail_lost", w.news[0].Reason)
		require.Contains(t, w.logged.String(), "hookladder restore --into-running")
	})
}

// The store is emptied between the look at how far it is archived, and what is read then.
func TestWhatIsOfOtherDataIsNotKept(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"read":   func(w *world) { w.happen(0, archive.Delivered, "mine"); w.reading = func() { w.epoch[0] = "c" } },
		"walked": func(w *world) { w.open[0] = []string{"mine"}; w.unfinished = func() { w.epoch[0] = "c" } },
		"askedFor": func(w *world) {
			w.unseen[0], w.unwalked = []dispatcher.DeliveryID{delivery("mine")}, func() { w.epoch[0] = "c" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				change(w)
				_, stop := w.start(t, "x")
				defer stop()
				pass(time.Minute)
				for _, r := range w.took {
					require.NotEqual(t, "a", r, "it had that when it was held, and no more when it was read")
				}
				require.Equal(t, "c", w.rows[0].epoch)
				require.Equal(t, 2, w.began)
			})
		})
	}
}

func TestAStoreThatWasEmptiedBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		defer stop()
		for n := range 5 {
			w.happen(0, archive.Delivered, fmt.Sprint(n))
		}
		a.Wake()
		pass(time.Second)
		w.do(func() { w.entries[0], w.at[0], w.epoch[0] = nil, archive.Position{}, "c" })
		w.happen(0, archive.Delivered, "new")
		a.Wake()
		pass(10 * time.Second)
		require.Equal(t, "0dnew", w.kept()[5])
		require.Equal(t, 2, w.began)
		require.Contains(t, w.logged.String(), "has other data than before")
	})
}

// It read the store when that had other data, and has waited since for what another instance holds.
func TestAnInstanceThatWaitedNeverGoesBackToOtherData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		first, stop := w.start(t, "x")
		second, stopSecond := w.start(t, "y")
		defer stopSecond()
		pass(time.Second)
		w.do(func() { w.entries[0], w.at[0], w.epoch[0] = nil, archive.Position{}, "c" })
		w.happen(0, archive.Delivered, "new")
		first.Wake()
		pass(10 * time.Second)
		stop()
		w.happen(0, archive.Delivered, "newer")
		second.Wake()
		pass(10 * time.Second)
		require.Equal(t, []string{"0dnew", "0dnewer"}, w.kept())
		require.Equal(t, []string{"a", "b", "c"}, w.epochs)
	})
}
