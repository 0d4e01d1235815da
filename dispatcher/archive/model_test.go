package archive_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// model is a store and an archive of one partition, with the rules of both. Its log is cut, and a cursor is valid for one
// process. A transaction is kept or not, and its answer may be lost.
type model struct {
	keeper // endpoints and pauses are compared elsewhere
	mu     sync.Mutex
	rand   *rand.Rand
	calm   bool // nothing happens any more, and nothing fails
	made   int

	// The store.
	log     []modelEntry
	last    archive.Position
	at, gap archive.Position
	open    map[string]time.Time
	ended   map[string]bool
	process int
	// The archive.
	row   archive.PartitionLease
	by    string
	until time.Time
	rows  map[string]*modelRow
	told  map[string][]archive.Kind
}

type modelEntry struct {
	id      archive.Position
	name    string
	accepts bool
}

type modelRow struct {
	pos, seen int64
	epoch     string
}

// happens lets things happen in the store before a call. mu is held.
func (m *model) happens() {
	if m.calm {
		return
	}
	for range m.rand.IntN(2) {
		switch n := m.rand.IntN(20); {
		case n < 9:
			m.made++
			name := fmt.Sprint("m", m.made)
			m.open[name] = time.Now()
			m.write(name, true)
		case n < 17:
			for name := range m.open { // in any order
				delete(m.open, name)
				m.ended[name] = true
				m.write(name, false)
				break
			}
		case n < 19:
			m.cut()
		default:
			m.process++
		}
	}
}

func (m *model) write(name string, accepts bool) {
	id := archive.Position{MS: time.Now().UnixMilli()}
	if !id.After(m.last) {
		id = archive.Position{MS: m.last.MS, Seq: m.last.Seq + 1}
	}
	m.last = id
	m.log = append(m.log, modelEntry{id, name, accepts})
}

// cut gives up some of what is not archived, the oldest first.
func (m *model) cut() {
	i := slices.IndexFunc(m.log, func(e modelEntry) bool { return e.id.After(m.at) && !m.gap.After(e.id) })
	if i < 0 {
		return
	}
	m.cutTo(min(len(m.log), i+1+m.rand.IntN(6)))
}

// cutTo gives up the first n entries.
func (m *model) cutTo(n int) {
	last := m.log[n-1].id
	m.gap, m.log = archive.Position{MS: last.MS, Seq: last.Seq + 1}, slices.Clone(m.log[n:])
}

// call is the begin of a call: what happens before it. It may fail.
func (m *model) call(fault error) error {
	time.Sleep(time.Duration(m.chance(20)) * time.Millisecond)
	m.mu.Lock()
	m.happens()
	if !m.calm && m.rand.IntN(80) == 0 {
		return fmt.Errorf("no answer: %w", fault)
	}
	return nil
}

func (m *model) chance(most int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rand.IntN(most)
}

func (m *model) All() []int                                                          { return []int{0} }
func (m *model) Begin(context.Context) error                                         { return nil }
func (m *model) Lost(_ context.Context, id string, _ map[int]string) (string, error) { return id, nil }

func (m *model) States(context.Context, []int) ([]archive.State, error) {
	err := m.call(dispatcher.ErrUnavailable)
	defer m.mu.Unlock()
	s := archive.State{Epoch: "a", At: m.at, Gap: m.gap}
	if n := len(m.log); n > 0 {
		s.Last = m.log[n-1].id
	}
	return []archive.State{s}, err
}

func (m *model) Read(_ context.Context, _ int, from archive.Position, _, _ int) (archive.Part, error) {
	err := m.call(dispatcher.ErrUnavailable)
	defer m.mu.Unlock()
	p, most := archive.Part{Epoch: "a", From: from, To: from, Gap: m.gap}, 1+m.rand.IntN(5)
	for _, e := range m.log {
		switch {
		case !e.id.After(from):
			continue
		case len(p.Accepted)+len(p.Events) == most:
			p.More = true
			return p, err
		}
		p.To = e.id
		pos, at := int64(len(p.Accepted)+len(p.Events)), time.UnixMilli(e.id.MS)
		if e.accepts {
			p.Accepted = append(p.Accepted, archive.Accepted{ID: e.name, Pos: pos, At: at})
		} else {
			p.Events = append(p.Events, archive.Event{ID: delivery(e.name), Pos: pos, At: at, Kind: archive.Delivered})
		}
	}
	return p, err
}

func (m *model) Archived(_ context.Context, parts []archive.Part) error {
	err := m.call(dispatcher.ErrUnavailable)
	defer m.mu.Unlock()
	for _, p := range parts {
		if err == nil && p.To.After(m.at) {
			m.at = p.To
		}
	}
	return err
}

// order is that of a scan: each process has another one.
func (m *model) order(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strconv.Itoa(m.process) + name))
	return h.Sum64()
}

func (m *model) Unfinished(_ context.Context, _ int, cursor string) (archive.Page, error) {
	err := m.call(dispatcher.ErrUnavailable)
	defer m.mu.Unlock()
	page := archive.Page{Epoch: "a", Total: len(m.open)}
	behind := uint64(0)
	if process, place, ok := strings.Cut(cursor, " "); ok {
		if process != strconv.Itoa(m.process) {
			return page, archive.ErrServerChanged
		}
		behind, _ = strconv.ParseUint(place, 10, 64)
	}
	names := make(map[uint64]string, len(m.open))
	for name := range m.open {
		names[m.order(name)] = name
	}
	for _, at := range slices.Sorted(maps.Keys(names)) {
		if at <= behind || !m.calm && m.rand.IntN(50) == 0 { // a page may lack one
			continue
		}
		if len(page.Open) == 5 {
			return page, err
		}
		page.Open = append(page.Open, m.opened(names[at]))
		page.Next = fmt.Sprint(m.process, " ", at)
	}
	page.Next = ""
	return page, err
}

func (m *model) opened(name string) archive.Open {
	return archive.Open{ID: delivery(name), Epoch: "a", Pos: archive.PosAt(m.open[name])}
}

func (m *model) UnfinishedOf(_ context.Context, _ int, ids []dispatcher.DeliveryID) (archive.Page, error) {
	err := m.call(dispatcher.ErrUnavailable)
	defer m.mu.Unlock()
	page := archive.Page{Epoch: "a"}
	for _, id := range ids {
		if _, there := m.open[id.Message]; there {
			page.Open = append(page.Open, m.opened(id.Message))
		}
	}
	return page, err
}

func (m *model) Endpoints(context.Context, string) ([]archive.Endpoint, string, error) {
	return nil, "", nil
}
func (m *model) Deleted(context.Context, []archive.Endpoint) ([]archive.Endpoint, error) {
	return nil, nil
}
func (m *model) PausedLanes(_ context.Context, n int, _ []archive.PausedLane) (archive.PausedLanes, error) {
	return archive.PausedLanes{Partition: n, Epoch: "a"}, nil
}

// run runs instances one behind the other, or beside each other, while things happen.
func (m *model) run(t *testing.T) {
	var stops []func()
	for n := range 6 {
		ctx, stop := context.WithCancel(t.Context())
		a := archive.NewArchiver(archive.ArchiverOptions{Source: m, Archive: modelArchive{m}, Name: fmt.Sprint(n), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		stops = append(stops, func() { stop(); require.NoError(t, <-done) })
		for range 30 {
			a.Wake()
			time.Sleep(time.Duration(m.chance(1000)) * time.Millisecond)
		}
		if n%2 == 1 { // one at least goes on
			stops[n-1]()
			stops[n-1] = func() {}
		}
	}
	m.mu.Lock()
	if n := len(m.log); n > 0 && m.log[n-1].id.After(m.at) && m.rand.IntN(2) == 0 { // nothing comes behind what was cut
		m.cutTo(n)
	}
	m.calm = true
	m.mu.Unlock()
	time.Sleep(10 * time.Minute)
	for _, stop := range stops {
		stop()
	}
}

// In the end the archive has as unfinished the deliveries that the store has. None of these ended as lost.
func TestTheArchiveEndsWithWhatTheStoreHas(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			m := &model{
				rand: rand.New(rand.NewPCG(seed, 1)), open: map[string]time.Time{}, ended: map[string]bool{},
				rows: map[string]*modelRow{}, told: map[string][]archive.Kind{},
			}
			for range 20 { // what was there before
				m.made++
				m.open[fmt.Sprint("m", m.made)] = time.Now()
			}
			m.run(t)
			require.ElementsMatch(t, slices.Collect(maps.Keys(m.open)), slices.Collect(maps.Keys(m.rows)), "seed %d", seed)
			for name, kinds := range m.told {
				require.True(t, m.ended[name], "seed %d: %s ended as %q, and the store has it", seed, name, kinds)
				require.Len(t, kinds, 1, "seed %d: %s ended as %q", seed, name, kinds)
			}
		})
	}
}

// modelArchive is the model as its archive.
type modelArchive struct{ *model }

func (a modelArchive) Endpoints(context.Context, string) ([]archive.Endpoint, error) { return nil, nil }
func (a modelArchive) PausedLanes(context.Context, string) ([]archive.PausedLane, error) {
	return nil, nil
}
func (a modelArchive) KeepPausedLanes(context.Context, string, archive.PausedLanes) error { return nil }
func (a modelArchive) KeepEndpoints(context.Context, []archive.Endpoint) error            { return nil }
func (a modelArchive) Maintain(context.Context, time.Duration) error                      { return nil }

// in is a transaction of the instance that holds the partition. It may fail, before it is
// kept or behind that.
func (a modelArchive) in(by string, do func() error) error {
	err := a.call(archive.ErrUnavailable)
	defer a.mu.Unlock()
	if err == nil || a.rand.IntN(2) == 0 {
		if a.by != by {
			return archive.ErrMoved
		}
		if failed := do(); failed != nil {
			return failed
		}
	}
	return err
}

func (a modelArchive) Lease(_ context.Context, by string, want []archive.Want) (leases []archive.PartitionLease, err error) {
	err = a.call(archive.ErrUnavailable)
	defer a.mu.Unlock()
	if err != nil || a.by != by && time.Now().Before(a.until) {
		return nil, err
	}
	if a.row.Epoch == "" {
		a.row = archive.PartitionLease{Epoch: want[0].Epoch, At: want[0].At, Began: true}
	}
	a.by, a.until = by, time.Now().Add(archive.LeaseTime)
	return []archive.PartitionLease{a.row}, nil
}

func (a modelArchive) Release(_ context.Context, by string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == by {
		a.until = time.Time{}
	}
	return nil
}

func (a modelArchive) Write(_ context.Context, by string, parts []archive.Part) (w archive.Written, err error) {
	err = a.in(by, func() error {
		for i := range parts {
			p := &parts[i]
			if p.From != a.row.At {
				return archive.ErrMoved
			}
			for _, m := range p.Accepted {
				a.rows[m.ID] = &modelRow{pos: m.Pos, epoch: p.Epoch}
			}
			for _, e := range p.Events {
				delete(a.rows, e.ID.Message)
				a.told[e.ID.Message] = append(a.told[e.ID.Message], e.Kind)
				a.row.Last = max(a.row.Last, e.Pos)
			}
			a.row.At = p.To
			if p.Gap.After(a.row.Gap) {
				a.row.Gap = p.Gap
			}
		}
		return nil
	})
	return w, err
}

func (a modelArchive) See(_ context.Context, by string, w archive.Walk, page []archive.Open) error {
	return a.in(by, func() error {
		for _, o := range page {
			r := a.rows[o.ID.Message]
			if r == nil {
				r = &modelRow{pos: o.Pos, epoch: o.Epoch}
				a.rows[o.ID.Message] = r
			}
			r.seen = w.Name
		}
		return nil
	})
}

func (a modelArchive) Unseen(_ context.Context, by string, w archive.Walk) (ids []dispatcher.DeliveryID, err error) {
	err = a.in(by, func() error {
		for name, r := range a.rows {
			if r.pos <= w.Until() && r.seen != w.Name && len(ids) < 4 {
				ids = append(ids, delivery(name))
			}
		}
		return nil
	})
	return ids, err
}

func (a modelArchive) EndLost(_ context.Context, by string, w archive.Walk, _ int64, ids []dispatcher.DeliveryID) (lost int, err error) {
	err = a.in(by, func() error {
		for _, id := range ids {
			if r := a.rows[id.Message]; r != nil && r.pos <= w.Until() && r.seen != w.Name {
				delete(a.rows, id.Message)
				a.told[id.Message] = append(a.told[id.Message], archive.Lost)
				lost++
			}
		}
		return nil
	})
	return lost, err
}

func (a modelArchive) EndWalk(_ context.Context, by string, w archive.Walk) error {
	return a.in(by, func() error {
		a.row.Began, a.row.Walked = false, w.Gap
		return nil
	})
}
