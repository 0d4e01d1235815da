package archive_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// ended are the walks of a partition that ended.
func (w *world) ended(partition int) (list []archive.Walk) {
	w.keeper.mu.Lock()
	defer w.keeper.mu.Unlock()
	for _, walk := range w.missed {
		if walk.Partition == partition {
			list = append(list, walk)
		}
	}
	return list
}

func TestWhatTheStoreHadBeforeIsSeenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.open[1] = []string{"old", "older"}
		a, stop := w.start(t, "x")
		defer stop()
		pass(time.Second)
		require.Len(t, w.ended(0), 1)
		require.Len(t, w.ended(1), 1)
		require.Equal(t, []string{"bold", "bolder"}, w.seen[w.ended(1)[0].Name])
		walks := w.walks
		pass(5 * time.Minute)
		require.Equal(t, walks, w.walks)
		require.Zero(t, a.Status().Comparing)
	})
}

// The position passes the gap with the first part that is read behind it.
func TestACutIsFollowedByAComparisonThoughTheLogGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		defer stop()
		pass(time.Second)
		gap := archive.Position{Seq: 3}
		w.do(func() { w.gap[0], w.dropped[0] = gap, 7 })
		for n := range 20 {
			w.happen(0, archive.Delivered, fmt.Sprint(n))
		}
		a.Wake()
		pass(time.Second)
		require.Len(t, w.kept(), 20)
		require.Len(t, w.ended(0), 2)
		require.Equal(t, gap, w.ended(0)[1].Gap)
		require.Equal(t, 7, w.news[0].Count)
		require.Equal(t, dispatcher.NoticeUnhealthy, w.news[0].Notice)
		pass(5 * time.Minute)
		require.Len(t, w.ended(0), 2, "once")
	})
}

// The instances were killed by the time that the log was cut.
func TestACutIsReportedByAnInstanceThatBeginsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		run := func() {
			_, stop := w.start(t, "x")
			pass(time.Minute)
			stop()
		}
		w.happen(0, archive.Delivered, "a")
		run()
		require.Empty(t, w.news)
		w.happen(0, archive.Delivered, "b")
		w.dropped[0] = 7
		run()
		require.Len(t, w.news, 1)
		require.Equal(t, 7, w.news[0].Count)
		run()
		require.Len(t, w.news, 1, "it was reported")
		w.entries[0], w.at[0], w.epoch[0], w.dropped[0] = nil, archive.Position{}, "c", 2
		run()
		require.Len(t, w.news, 2)
		require.Equal(t, 2, w.news[1].Count, "the store was emptied, and counts anew")
	})
}

func TestAGapThatTheLogShowsDuringAComparisonTakesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.open[0] = []string{"a", "b", "c"}
		w.unfinished = func() { w.gap[0] = archive.Position{Seq: 3} }
		_, stop := w.start(t, "x")
		defer stop()
		pass(time.Minute)
		require.Len(t, w.ended(0), 2)
		require.Zero(t, w.ended(0)[0].Gap)
		require.Equal(t, archive.Position{Seq: 3}, w.ended(0)[1].Gap)
	})
}

func TestWhatHappensIsArchivedWhileItCompares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for n := range 100 {
			w.open[0] = append(w.open[0], fmt.Sprint(n))
		}
		pages := 0
		w.paged = func() { // each page of the walk
			if pages++; pages <= 50 {
				w.entries[0] = append(w.entries[0], archive.Event{ID: delivery(fmt.Sprint("new", pages)), Kind: archive.Dead})
			}
			if pages == 50 {
				w.shares = append(w.shares, len(w.keeper.events))
			}
		}
		a, stop := w.start(t, "x")
		defer stop()
		pass(time.Second)
		require.Equal(t, []int{49}, w.shares, "each page lets what happened before it be archived")
		require.True(t, a.Status().Up)
	})
}

func TestNothingIsLostBeforeTheStoreWasAskedAndTheLogReadUpToThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.gap[0] = archive.Position{Seq: 1}
		w.unseen[0] = []dispatcher.DeliveryID{delivery("hidden"), delivery("ended"), delivery("gone")}
		w.unwalked = func() { w.open[0] = []string{"hidden"} } // which no page shows
		w.asked = func() {
			w.entries[0] = append(w.entries[0], archive.Event{ID: delivery("ended"), Kind: archive.Delivered})
		}
		_, stop := w.start(t, "x")
		defer stop()
		pass(time.Minute)
		require.Equal(t, []string{"gone"}, w.ends)
		require.Equal(t, []string{"0dended"}, w.kept())
	})
}

// Its last entries are never read, so the position never comes to where they were.
func TestAComparisonEndsThoughTheLogWasCutToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.gap[0] = archive.Position{Seq: 1}
		w.unseen[0] = []dispatcher.DeliveryID{delivery("gone")}
		w.asked = func() {
			w.entries[0] = append(w.entries[0], archive.Event{ID: delivery("other"), Kind: archive.Delivered})
			w.reading = func() { w.cut[0], w.gap[0] = 1, archive.Position{Seq: 2} } // the state was read before
		}
		_, stop := w.start(t, "x")
		defer stop()
		pass(time.Minute)
		require.Equal(t, []string{"gone"}, w.ends)
		require.Len(t, w.ended(0), 2, "the second one is for what was cut meanwhile")
		require.Equal(t, archive.Position{Seq: 2}, w.ended(0)[1].Gap)
	})
}

func TestAComparisonBeginsAgainWithAnotherProcessOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.open[0] = []string{"a", "b", "c", "d"}
		pages := 0
		w.paged = func() {
			if pages++; pages == 2 {
				w.anew = true
				w.open[0] = []string{"d", "c", "b", "a"}
			}
		}
		_, stop := w.start(t, "x")
		defer stop()
		pass(time.Minute)
		require.Len(t, w.ended(0), 1)
		require.Subset(t, w.seen[w.ended(0)[0].Name], []string{"aa", "ab", "ac", "ad"})
		require.Contains(t, w.logged.String(), "begins again")
	})
}

func TestAnArchiveIsUpWhileItCompares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for n := range 100 {
			w.open[0] = append(w.open[0], fmt.Sprint(n))
		}
		w.slow = 100 * time.Millisecond
		a, stop := w.start(t, "x")
		defer stop()
		pass(5 * time.Second)
		s := a.Status()
		require.Empty(t, w.ended(0), "it takes 10 s")
		require.True(t, s.Up)
		require.InDelta(t, 0.25, s.Comparing, 0.05, "half of the one of two partitions")
		pass(10 * time.Second)
		require.Zero(t, a.Status().Comparing)
	})
}

// What the archive knows may be older than what it had confirmed: a standby took over.
func TestAnArchiveThatLostWhatItHadIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		for n := range 6 {
			w.happen(0, archive.Delivered, fmt.Sprint(n))
		}
		a.Wake()
		pass(time.Second)
		stop()
		w.do(func() { w.rows[0].at = archive.Position{Seq: 2} })
		w.happen(0, archive.Delivered, "new")
		_, stop = w.start(t, "y")
		defer stop()
		pass(time.Second)
		require.Equal(t, archive.Position{Seq: 6}, w.ended(0)[1].Gap)
	})
}
