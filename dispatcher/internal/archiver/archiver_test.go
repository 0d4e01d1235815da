package archiver_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/archiver"
)

// store is a source in memory. Entry n of a partition stands at 0-n.
type store struct {
	mu        sync.Mutex
	log       [2][]archive.Event
	epoch     [2]string
	at        [2]archive.Position
	gap       [2]archive.Position
	dropped   [2]int64
	open      [2][]string
	began     int
	deaf      int // so many calls of Archived fail
	walks     int
	atOnce    int // events of a read
	unwalked  func()
	endpoints int
}

func newStore() *store { return &store{epoch: [2]string{"a", "b"}, atOnce: 3} }

// happen logs an event.
func (s *store) happen(partition int, kind archive.Kind, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log[partition] = append(s.log[partition], archive.Event{ID: delivery(id), Kind: kind, At: time.UnixMilli(int64(len(s.log[partition])))})
}

func delivery(id string) dispatcher.DeliveryID {
	return dispatcher.DeliveryID{Lane: "u_1", Message: id}
}

func (s *store) Partitions() int { return 2 }

func (s *store) Begin(context.Context, []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began++
	return nil
}

func (s *store) States(_ context.Context, in []int) (list []archive.State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range in {
		list = append(list, archive.State{
			Partition: n, Epoch: s.epoch[n], At: s.at[n], Last: archive.Position{Seq: uint64(len(s.log[n]))}, Gap: s.gap[n], Dropped: s.dropped[n],
		})
	}
	return list, nil
}

func (s *store) Read(_ context.Context, n int, from archive.Position, lines, _ int) (archive.Part, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := archive.Part{Partition: n, From: from, To: from}
	for int(p.To.Seq) < len(s.log[n]) && len(p.Events) < min(s.atOnce, lines) {
		e := s.log[n][p.To.Seq]
		p.To.Seq++
		e.Pos = int64(p.To.Seq)
		p.Events = append(p.Events, e)
	}
	p.More = int(p.To.Seq) < len(s.log[n])
	return p, nil
}

func (s *store) Archived(_ context.Context, parts []archive.Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deaf > 0 {
		s.deaf--
		return dispatcher.ErrUnavailable
	}
	for _, p := range parts {
		if p.To.After(s.at[p.Partition]) {
			s.at[p.Partition] = p.To
		}
	}
	return nil
}

func (s *store) Unfinished(_ context.Context, n int, cursor string) (page []archive.Open, next string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walks++
	at := len(cursor)
	if at < len(s.open[n]) {
		page, next = append(page, archive.Open{ID: delivery(s.open[n][at])}), strings.Repeat(".", at+1)
	}
	if next == "" && s.unwalked != nil {
		s.unwalked()
	}
	return page, next, nil
}

func (s *store) Endpoints(context.Context) ([]archive.Endpoint, error) {
	s.endpoints++
	return nil, nil
}
func (s *store) Holds(context.Context) ([]archive.Hold, error) { return nil, nil }

// keeper is an archive in memory.
type keeper struct {
	mu      sync.Mutex
	rows    [2]row
	events  []string // what was kept: partition, kind and id, in order
	seen    map[int64][]string
	missed  []archive.Missed
	away    bool
	lies    int // so many writes are kept and answer an error
	version bool
	cared   int
}

type row struct {
	epoch, holder string
	at            archive.Position
	last          int64
	until         time.Time
	walked        bool
	gap           archive.Position
}

func (k *keeper) down() error {
	switch {
	case k.away:
		return fmt.Errorf("dial: %w", archive.ErrUnavailable)
	case k.version:
		return archive.ErrVersion
	}
	return nil
}

func (k *keeper) Hold(_ context.Context, by string, want []archive.Want) (held []archive.Held, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.down(); err != nil {
		return nil, err
	}
	for _, w := range want {
		r := &k.rows[w.Partition]
		if r.holder != by && time.Now().Before(r.until) {
			continue
		}
		if r.epoch != w.Epoch {
			*r = row{epoch: w.Epoch, at: w.At, last: r.last}
		}
		r.holder, r.until = by, time.Now().Add(archive.HoldFor)
		held = append(held, archive.Held{Partition: w.Partition, Epoch: r.epoch, At: r.at, Last: r.last, Began: !r.walked, Walked: r.gap})
	}
	return held, nil
}

func (k *keeper) Write(_ context.Context, by string, parts []archive.Part) (w archive.Written, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.down(); err != nil {
		return w, err
	}
	for _, p := range parts {
		if r := k.rows[p.Partition]; r.holder != by || r.epoch != p.Epoch || r.at != p.From {
			return w, archive.ErrMoved
		}
	}
	for _, p := range parts {
		r := &k.rows[p.Partition]
		for _, e := range p.Events {
			if e.Pos <= r.last {
				panic("not in order")
			}
			r.last = e.Pos
			k.events = append(k.events, fmt.Sprintf("%d%c%s", p.Partition, e.Kind, e.ID.Message))
		}
		r.at = p.To
		w.Events += len(p.Events)
	}
	if k.lies > 0 {
		k.lies--
		return w, fmt.Errorf("no answer: %w", archive.ErrUnavailable)
	}
	return w, nil
}

func (k *keeper) See(_ context.Context, _ string, walk int64, page []archive.Open) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range page {
		k.seen[walk] = append(k.seen[walk], o.Epoch+o.ID.Message)
	}
	return k.down()
}

func (k *keeper) Miss(_ context.Context, _ string, m archive.Missed) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.missed = append(k.missed, m)
	k.rows[m.Partition].walked, k.rows[m.Partition].gap = true, m.Gap
	return 0, k.down()
}

func (k *keeper) KeepEndpoints(context.Context, []archive.Endpoint, []archive.Hold) error { return nil }
func (k *keeper) Maintain(context.Context, time.Duration) error                           { k.cared++; return nil }
func (k *keeper) Close()                                                                  {}
func (k *keeper) Release(_ context.Context, by string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range k.rows {
		if k.rows[n].holder == by {
			k.rows[n].until = time.Time{}
		}
	}
	return nil
}

// world is a store, an archive, and what is logged.
type world struct {
	*store
	*keeper
	logged strings.Builder
	news   []dispatcher.News
}

func newWorld() *world { return &world{store: newStore(), keeper: &keeper{seen: map[int64][]string{}}} }

// start runs an archiver until stop, which lets it release what it holds, or kill.
func (w *world) start(t *testing.T, name string) (a *archiver.Archiver, stop func()) {
	t.Helper()
	a = archiver.New(archiver.Options{
		Source: w.store, Archive: w.keeper, Name: name, Now: time.Now, Tell: func(n dispatcher.News) { w.news = append(w.news, n) },
		Log: slog.New(slog.NewTextHandler(&w.logged, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	synctest.Wait()
	return a, func() { cancel(); require.NoError(t, <-done) }
}

// do changes the world while archivers run.
func (w *world) do(change func()) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.keeper.mu.Lock()
	defer w.keeper.mu.Unlock()
	change()
}

// kept is what the archive keeps, in the order of each partition.
func (w *world) kept() []string {
	w.keeper.mu.Lock()
	defer w.keeper.mu.Unlock()
	list := slices.Clone(w.keeper.events)
	slices.SortStableFunc(list, func(a, b string) int { return int(a[0]) - int(b[0]) })
	return list
}

func TestWhatHappensIsArchivedSoonAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		defer stop()
		for n := range 10 {
			w.happen(n%2, archive.Delivered, fmt.Sprint(n))
			a.Stirred()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"0d0", "0d2", "0d4", "0d6", "0d8", "1d1", "1d3", "1d5", "1d7", "1d9"}, w.kept())
		require.Equal(t, archive.Position{Seq: 5}, w.store.at[1], "the store was told")
		require.True(t, a.Status().Up)
		require.EqualValues(t, 10, a.Status().Events)
		require.Equal(t, 1, w.cared)

		w.happen(0, archive.Dead, "unheard") // nobody said so
		time.Sleep(time.Minute)
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
		a.Stirred()
		time.Sleep(time.Minute)
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
			first.Stirred()
			second.Stirred()
			time.Sleep(time.Second)
		}
		both("a")
		require.Equal(t, []int{2, 0}, []int{first.Status().Holds, second.Status().Holds})
		w.do(func() { w.rows[0].until, w.rows[1].until = time.Time{}, time.Time{} }) // as if x had not been heard of for a while
		_, err := w.Hold(t.Context(), "y", []archive.Want{{Partition: 0, Epoch: "a"}, {Partition: 1, Epoch: "b"}})
		require.NoError(t, err)
		both("b") // x writes, and is told that it may not
		time.Sleep(5 * time.Second)
		both("c")
		require.Equal(t, []int{0, 2}, []int{first.Status().Holds, second.Status().Holds})
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
		require.Equal(t, 2, second.Status().Holds, "without waiting")
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
			a.Stirred()
			time.Sleep(time.Second)
		}
		require.False(t, a.Status().Up)
		require.ErrorIs(t, a.Status().Err, archive.ErrUnavailable)
		require.Empty(t, w.kept())
		w.do(func() { w.keeper.away = false })
		time.Sleep(10 * time.Second)
		require.Len(t, w.kept(), 100)
		require.Equal(t, 1, strings.Count(w.logged.String(), "archive lost"), w.logged.String())
		require.Equal(t, 1, strings.Count(w.logged.String(), "archive back"))
	})
}

func TestTablesOfAnotherVersionAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.version = true
		a, stop := w.start(t, "x")
		defer stop()
		require.ErrorIs(t, a.Status().Err, archive.ErrVersion)
		w.do(func() { w.version = false })
		time.Sleep(2 * time.Minute)
		require.True(t, a.Status().Up)
	})
}

func TestWhatTheStoreHeldBeforeIsSeenAndWhatWasCutIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.open[1] = []string{"old", "older"}
		w.happen(1, archive.Delivered, "early")
		w.unwalked = func() { w.log[1] = append(w.log[1], archive.Event{ID: delivery("late"), Kind: archive.Dead}) }
		_, stop := w.start(t, "x")
		defer stop()
		old := w.missed[slices.IndexFunc(w.missed, func(m archive.Missed) bool { return m.Partition == 1 })]
		require.Equal(t, []string{"bold", "bolder"}, w.seen[old.Walk])
		require.Equal(t, []string{"1dearly", "1xlate"}, w.kept()[:2], "what was logged during the walk is read before anything is missed")
		require.Greater(t, old.Last, old.Until, "and is not judged")
		walks := w.walks
		w.do(func() { w.unwalked = nil })
		time.Sleep(5 * time.Minute)
		require.Equal(t, walks, w.walks, "once")

		w.do(func() { w.gap[0], w.dropped[0] = archive.Position{Seq: 3}, 7 })
		time.Sleep(time.Minute)
		require.Equal(t, archive.Position{Seq: 3}, w.missed[len(w.missed)-1].Gap)
		require.Greater(t, w.walks, walks)
		require.Equal(t, 7, w.news[0].Count)
		require.Equal(t, dispatcher.NoticeUnhealthy, w.news[0].Notice)
	})
}

func TestAStoreThatWasEmptiedBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.start(t, "x")
		defer stop()
		for n := range 5 {
			w.happen(0, archive.Delivered, fmt.Sprint(n))
		}
		a.Stirred()
		time.Sleep(time.Second)
		w.do(func() { w.log[0], w.at[0], w.epoch[0] = nil, archive.Position{}, "c" })
		w.happen(0, archive.Delivered, "new")
		a.Stirred()
		time.Sleep(10 * time.Second)
		require.Equal(t, "0dnew", w.kept()[5])
		require.Equal(t, 2, w.began)
		require.Contains(t, w.logged.String(), "holds other data than before")
	})
}
