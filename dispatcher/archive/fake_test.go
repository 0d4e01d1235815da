package archive_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// store is a source in memory. Entry n of a partition stands at 0-n.
type store struct {
	mu       sync.Mutex
	id       string // of its data
	lost     bool   // the archive has another id
	entries  [2][]archive.Event
	epoch    [2]string
	at       [2]archive.Position
	gap      [2]archive.Position
	cut      [2]int // so many entries of a partition are gone, the oldest
	dropped  [2]int64
	open     [2][]string
	began    int
	deaf     int     // so many calls of Archived fail
	tailLost [2]bool // the next read of it tells so
	walks    int
	atOnce   int // events of a read

	records map[string]int64 // versions of the endpoints that are there
	paused  map[dispatcher.Lane]bool
	pages   int // of endpoints that were read

	said []archive.Part
	// What is done, if it is not nil, once before a read, before a page of a walk, and at each
	// end of a walk.
	reading, unfinished, unwalked func()

	paged, asked func()        // before each page of a walk of the first partition; behind each question by name
	anew         bool          // the next page of a walk is of another process
	slow         time.Duration // of a page of a walk
}

func newStore() *store {
	return &store{epoch: [2]string{"a", "b"}, atOnce: 3, records: map[string]int64{}, paused: map[dispatcher.Lane]bool{}}
}

// changed is the kind of a line that tells of a change: of an endpoint, whose version is the
// attempt's number, or of a lane that was paused or resumed.
const changed archive.Kind = 'k'

// change logs that an endpoint has a version, which it may get later.
func (s *store) change(partition int, id string, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[partition] = append(s.entries[partition], archive.Event{
		ID: dispatcher.DeliveryID{Lane: dispatcher.Lane(id)}, Kind: changed, Attempt: dispatcher.Attempt{Number: version},
	})
}

// pause pauses a lane, or resumes it.
func (s *store) pause(partition int, lane dispatcher.Lane, paused bool) {
	s.change(partition, string(lane), 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused[lane] = paused
}

// happen logs an event.
func (s *store) happen(partition int, kind archive.Kind, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[partition] = append(s.entries[partition], archive.Event{ID: delivery(id), Kind: kind, At: time.UnixMilli(int64(len(s.entries[partition])))})
}

func delivery(id string) dispatcher.DeliveryID {
	return dispatcher.DeliveryID{Lane: "u_1", Message: id}
}

func (s *store) All() []int { return []int{0, 1} }

// Lost notes what the archive tells of another store.
func (s *store) Lost(_ context.Context, id string, _ map[int]string) (string, error) {
	if s.lost = s.lost || id != "" && id != s.id; s.lost {
		return "", nil
	}
	return s.id, nil
}

func (s *store) Begin(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began++
	return nil
}

func (s *store) States(_ context.Context, in []int) (list []archive.State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range in {
		state := archive.State{Partition: n, Epoch: s.epoch[n], At: s.at[n], Gap: s.gap[n], Dropped: s.dropped[n]}
		if len(s.entries[n]) > s.cut[n] { // else the log is empty
			state.Last.Seq = uint64(len(s.entries[n]))
		}
		list = append(list, state)
	}
	return list, nil
}

func (s *store) Read(_ context.Context, n int, from archive.Position, lines, _ int) (archive.Part, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	once(&s.reading)
	p := archive.Part{Partition: n, Epoch: s.epoch[n], From: from, To: from, TailLost: s.tailLost[n]}
	s.tailLost[n] = false
	if len(s.entries[n]) <= s.cut[n] {
		return p, nil
	}
	for int(p.To.Seq) < len(s.entries[n]) && len(p.Events) < min(s.atOnce, lines) {
		e := s.entries[n][p.To.Seq]
		if id := string(e.ID.Lane); e.Kind == changed {
			if e.ID.Lane.IsEndpoint() && s.records[id] < int64(e.Attempt.Number) {
				p.Waits = true
				return p, nil
			}
			p.To.Seq++
			if e.ID.Lane.IsEndpoint() {
				p.Endpoints = append(p.Endpoints, archive.Endpoint{ID: id, Home: "h", Version: s.records[id]})
			} else {
				p.PausedLanes = append(p.PausedLanes, archive.PausedLane{Lane: e.ID.Lane, Epoch: s.epoch[n], Resumed: !s.paused[e.ID.Lane]})
			}
			continue
		}
		p.To.Seq++
		e.Pos = int64(p.To.Seq)
		p.Events = append(p.Events, e)
	}
	p.More = int(p.To.Seq) < len(s.entries[n])
	return p, nil
}

func once(do *func()) {
	if *do != nil {
		(*do)()
		*do = nil
	}
}

func (s *store) Archived(_ context.Context, parts []archive.Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deaf > 0 {
		s.deaf--
		return dispatcher.ErrUnavailable
	}
	s.said = append(s.said, parts...)
	for _, p := range parts {
		if p.To.After(s.at[p.Partition]) {
			s.at[p.Partition] = p.To
		}
	}
	return nil
}

func (s *store) Unfinished(_ context.Context, n int, cursor string) (page archive.Page, err error) {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walks++
	once(&s.unfinished)
	if n == 0 && s.paged != nil {
		s.paged()
	}
	if s.anew && cursor != "" {
		s.anew = false
		return page, archive.ErrServerChanged
	}
	at := len(cursor)
	page.Epoch, page.Total = s.epoch[n], len(s.open[n])
	if at < len(s.open[n]) {
		page.Open, page.Next = append(page.Open, archive.Open{ID: delivery(s.open[n][at]), Epoch: s.epoch[n]}), strings.Repeat(".", at+1)
		page.Messages = 1
	}
	if page.Next == "" && s.unwalked != nil {
		s.unwalked()
	}
	return page, nil
}

func (s *store) UnfinishedOf(_ context.Context, n int, ids []dispatcher.DeliveryID) (page archive.Page, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	page.Epoch = s.epoch[n]
	for _, id := range ids {
		if slices.Contains(s.open[n], id.Message) {
			page.Open = append(page.Open, archive.Open{ID: id, Epoch: s.epoch[n]})
		}
	}
	once(&s.asked)
	return page, nil
}

// pageTime is how long a page of endpoints takes.
const pageTime = 10 * time.Millisecond

func (s *store) Endpoints(_ context.Context, cursor string) (page []archive.Endpoint, next string, err error) {
	time.Sleep(pageTime)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages++
	for _, id := range slices.Sorted(maps.Keys(s.records)) {
		if id <= cursor {
			continue
		}
		if len(page) == 32 {
			return page, page[31].ID, nil
		}
		page = append(page, archive.Endpoint{ID: id, Home: "h", Version: s.records[id]})
	}
	return page, "", nil
}

func (s *store) Deleted(_ context.Context, kept []archive.Endpoint) (gone []archive.Endpoint, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range kept {
		if _, there := s.records[e.ID]; !there && e.Home == "h" {
			gone = append(gone, archive.Endpoint{ID: e.ID, Version: e.Version, Deleted: true})
		}
	}
	return gone, nil
}

func (s *store) PausedLanes(_ context.Context, n int, kept []archive.PausedLane) (archive.PausedLanes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := archive.PausedLanes{Partition: n, Epoch: s.epoch[n]}
	for lane, paused := range s.paused {
		if n == 0 && paused {
			h.Lanes = append(h.Lanes, archive.PausedLane{Lane: lane, Epoch: s.epoch[n]})
		}
	}
	for _, k := range kept {
		if !s.paused[k.Lane] {
			h.Lanes = append(h.Lanes, archive.PausedLane{Lane: k.Lane, Resumed: true})
		}
	}
	return h, nil
}

// world is a store, an archive, and what is logged.
type world struct {
	*store
	*keeper
	logged strings.Builder
	log    *slog.Logger // one for all, since it guards logged
	news   []dispatcher.News
	shares []int // what a test counts
}

func newWorld() *world {
	w := &world{store: newStore(), keeper: &keeper{seen: map[int64][]string{}, endpoints: map[string]archive.Endpoint{}, holds: map[dispatcher.Lane]archive.PausedLane{}}}
	w.log = slog.New(slog.NewTextHandler(&w.logged, nil))
	return w
}

// start runs an archiver until stop, which lets it release what it holds, or kill.
func (w *world) start(t *testing.T, name string) (a *archive.Archiver, stop func()) {
	t.Helper()
	a = archive.NewArchiver(archive.ArchiverOptions{
		Source: w.store, Archive: w.keeper, Name: name, Now: time.Now, Notify: func(n dispatcher.News) { w.news = append(w.news, n) },
		Log: w.log,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	synctest.Wait()
	return a, func() { cancel(); require.NoError(t, <-done) }
}

// pass lets time pass by the bubble's clock, until all waits for it again.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
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
