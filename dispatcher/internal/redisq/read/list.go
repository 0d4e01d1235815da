package read

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// Limits of one page. A script reads the number of records that the page still needs, but at
// least listLeast and at most listChunk. All names and records for one page may cost Redis
// listMost, in units of some 0.35 µs. A name costs 1 µs, and a record 6. A page that costs
// more ends early, with a cursor.
const (
	listChunk = 256
	listLeast = 8
	listMost  = 55_000

	costOfName   = 3
	costOfRecord = 16
	costOfLane   = 2
	costOfScan   = 7 // of a lane's state
	costOfScript = 100
	costOfState  = 25 // in addition to its name
	costOfShelf  = 12 // of a lane in which deliveries may have moved
	movedLanes   = 64 // limit of one call, same as in the script
)

// A list reads up to seven sections. First come deliveries that ended but are still in their
// old index, then those in the end sets. Then come attempts under way, and deliveries that
// consumers have taken, by the ends of their leases. The ready ones follow, and last those that
// wait for a time. Each status has its own index, and there is no other index. Deliveries that
// wait behind another one with their ordering key come directly after it.
//
// A delivery can move past the page that is read. So a list of all statuses ends with the
// deliveries that moved after it began. Some of them appear twice, but the list misses none
// that existed the whole time.
const (
	sectionDue    = "due"
	sectionLeases = "leases"
	sectionTaken  = "taken"
	sectionReady  = "ready"
	sectionMarks  = "marks"
	sectionEnded  = "ended"
	sectionMoved  = "moved"
)

var sections = []string{sectionMarks, sectionEnded, sectionLeases, sectionTaken, sectionReady, sectionDue, sectionMoved}

// unfinished has the sections of deliveries that are in no end set yet. It has the order in
// which deliveries move, so a list sees each moving delivery in a later section.
var unfinished = []string{sectionDue, sectionReady, sectionLeases, sectionTaken, sectionMarks}

// listed is one delivery of a list, with the values for a cursor.
type listed struct {
	delivery dispatcher.Delivery
	name     string
	score    float64   // ready: the position in its lane
	at       time.Time // of its end, next attempt or claim; zero if it has none
	line     string    // key and score of the line that waits behind it; empty: none waits; moved: the ms in :known of its lane
}

// namedLanes is the maximum number of lanes for choosing by name, because a script compares
// each name with all of them.
const namedLanes = 64

// listOf reads the list by status, for deliveries of some lanes, or of tenants with as few
// lanes.
func (s *Deliveries) listOf(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	if len(f.Lanes) > 0 || len(f.Tenants) == 0 {
		return s.list(ctx, f, f.Lanes)
	}
	shelves, err := s.shelf.Shelves(ctx, f.Tenants)
	if err != nil && !errors.Is(err, ErrMore) {
		return dispatcher.Page{}, fmt.Errorf("list: %w", err)
	}
	var lanes []dispatcher.Lane
	for _, names := range shelves {
		for _, name := range names {
			lane, _ := ShelfLane(name)
			lanes = append(lanes, dispatcher.Lane(lane))
		}
	}
	if err != nil || len(lanes) > namedLanes {
		lanes = nil
	}
	return s.list(ctx, f, lanes)
}

// list returns a page. It reads only the given lanes; none: all lanes.
func (s *Deliveries) list(ctx context.Context, f dispatcher.Filter, lanes []dispatcher.Lane) (dispatcher.Page, error) {
	at, err := s.listAt(ctx, &f)
	if err != nil {
		return dispatcher.Page{}, err
	}
	names, err := InstanceNames(ctx, s.conn)
	if err != nil {
		return dispatcher.Page{}, err
	}
	l := newLister(s, f, names, lanes)
	all := sectionsOf(&f)
	if l.began, err = l.walkBegan(ctx, f.Cursor != "", at); err != nil {
		return dispatcher.Page{}, fmt.Errorf("list: %w", err)
	}
	for _, section := range all[max(slices.Index(all, at.section), 0):] {
		if at.section != section {
			at = listCursor{section: section}
		}
		next, err := l.section(ctx, at)
		if err != nil {
			return dispatcher.Page{}, fmt.Errorf("list: %w", err)
		}
		if next != nil {
			l.page.Reached, next.began = next.place(), l.began
			l.page.Next, err = s.conn.Cursors().Seal(ctx, ShelfListOf(f), next.text())
			return l.page, err
		}
	}
	return l.page, nil
}

// lister fills one page.
type lister struct {
	s     *Deliveries
	f     dispatcher.Filter
	of    []dispatcher.Lane // it reads only these; none: all
	names []any
	limit int
	cost  int // of everything that was read so far
	page  dispatcher.Page
	up    bool  // the section is sorted by score, lowest first; else newest first
	began int64 // ms when the walk began; 0: no delivery moves in it

	statuses, reasons, lanes string // the filters, as arguments of the script
	byMarks                  bool   // marked deliveries are found by their marks
}

func newLister(s *Deliveries, f dispatcher.Filter, names []any, of []dispatcher.Lane) *lister {
	if f.Failed && len(f.Statuses) == 0 {
		f.Statuses = slices.DeleteFunc(dispatcher.Statuses(), dispatcher.Status.Ended)
	}
	l := &lister{s: s, f: f, of: of, names: names, limit: input.PageSize(f.Limit, input.MaxPage)}
	l.statuses, l.reasons, l.lanes = ShelfWords(f.Statuses), ShelfWords(f.Reasons), ShelfWords(of)
	l.byMarks = len(f.Statuses) > 0 && l.asks(dispatcher.StatusDelivered, dispatcher.StatusCancelled)
	return l
}

// asks reports whether the filter includes any of some statuses.
func (l *lister) asks(statuses ...dispatcher.Status) bool {
	if len(l.f.Statuses) == 0 {
		return true
	}
	return slices.ContainsFunc(statuses, func(st dispatcher.Status) bool { return slices.Contains(l.f.Statuses, st) })
}

// spent reports whether the page has reached its cost limit.
func (l *lister) spent() bool { return l.cost >= listMost }

// section continues to read in one section. It returns a nil cursor at the end of the section.
func (l *lister) section(ctx context.Context, at listCursor) (*listCursor, error) {
	l.up = at.section == sectionDue
	if next, err := l.behind(ctx, &at); next != nil || err != nil {
		return next, err
	}
	switch at.section {
	case sectionDue:
		return l.due(ctx, at)
	case sectionLeases:
		if l.asks(dispatcher.StatusInFlight, dispatcher.StatusScheduled, dispatcher.StatusCancelled) {
			return l.merge(ctx, at, l.leases())
		}
	case sectionTaken:
		if l.asks(dispatcher.StatusInFlight, dispatcher.StatusScheduled, dispatcher.StatusCancelled) {
			return l.merge(ctx, at, l.everywhere(sectionTaken))
		}
	case sectionReady:
		if l.asks(dispatcher.StatusReady, dispatcher.StatusScheduled, dispatcher.StatusCancelled) {
			return l.ready(ctx, at)
		}
	case sectionMarks:
		if l.byMarks {
			return l.marks(ctx, at)
		}
	case sectionEnded:
		return l.merge(ctx, at, l.ended())
	case sectionMoved:
		return l.moved(ctx, at)
	}
	return nil, nil
}

// put adds an entry to the page if it matches.
func (l *lister) put(e listed) {
	if e.delivery.ID.Message != "" && l.f.Matches(&e.delivery, e.at) {
		l.page.Deliveries = append(l.page.Deliveries, e.delivery)
	}
}

func (l *lister) full() bool { return len(l.page.Deliveries) >= l.limit }

// chunk is the reply of one call of the script.
type chunk struct {
	entries []listed
	more    bool
	last    listCursor // score and name of the last entry; for marks the score is the scan's cursor and process
}

// want returns the number of entries for the next call.
func (l *lister) want() int { return min(max(l.limit-len(l.page.Deliveries), listLeast), listChunk) }

// args returns the arguments of the script for one index.
func (l *lister) args(index, of string, wanted int, after, last string) []any {
	return append(slices.Clip(l.names), index, of, wanted, after, last, l.statuses, l.reasons, l.lanes, conn.Flag(l.byMarks), l.began)
}

// read sends several calls of the script in one round trip.
func (l *lister) read(ctx context.Context, calls ...conn.Call) ([]chunk, error) {
	chunks := make([]chunk, len(calls))
	for i, r := range l.s.conn.Send(ctx, conn.Batch{Script: l.s.scripts.List, Calls: calls}) {
		if err := l.readChunk(r, &chunks[i]); err != nil {
			return nil, err
		}
	}
	return chunks, nil
}

func (l *lister) readChunk(r conn.Call, c *chunk) error {
	r.Hint()
	if r.Err != nil {
		return r.Err
	}
	c.more = r.Number() == 1
	names, records := int(r.Number()), int(r.Number())
	l.page.LookedAt += names
	l.cost += costOfName*names + costOfRecord*records + costOfScript
	score := r.Text()
	c.last.score, _ = strconv.ParseFloat(score, 64)
	c.last.scan, _ = strconv.ParseUint(score, 10, 64)
	c.last.name, c.last.known = r.Text(), r.Text()
	c.last.server = conn.ProcessName(c.last.known)
	for r.More() {
		e, err := l.readListed(&r.Reply)
		if err != nil {
			return err
		}
		c.entries = append(c.entries, e)
	}
	return r.Err
}

// readListed parses one entry. A delivery without a record has only its name.
func (l *lister) readListed(a *conn.Reply) (listed, error) {
	e := listed{name: a.Text()}
	e.score, _ = strconv.ParseFloat(a.Text(), 64)
	e.at = a.Time()
	f := knownDelivery{at: e.at, status: a.Text()}
	head := a.Text()
	f.progress = a.Text()
	if newest := a.Text(); newest != "" {
		f.history = []string{newest}
	}
	f.waitsFor, e.line = a.Text(), a.Text()
	id, ok := dispatcher.ParseDeliveryID(e.name)
	if a.Err != nil {
		return e, a.Err
	}
	if !ok || head == "" { // a malformed name from a person must not stop the list
		return e, nil
	}
	m, err := conn.DecodeRecord(id.Message, head)
	f.lane = string(id.Lane)
	e.delivery = f.delivery(m, id.Message)
	e.delivery.History = nil
	if err != nil {
		e.delivery.LastError = conn.ErrRecord.Error()
	}
	return e, nil
}

// take adds a chunk's entries to the page, each followed by the deliveries that wait behind
// it. It returns a cursor if the page ends there. Otherwise it sets at to the next place.
func (l *lister) take(ctx context.Context, c chunk, at *listCursor) (*listCursor, error) {
	for _, e := range c.entries {
		if next, err := l.takeOne(ctx, e, at); next != nil || err != nil {
			return next, err
		}
	}
	return nil, nil
}

func (l *lister) takeOne(ctx context.Context, e listed, at *listCursor) (*listCursor, error) {
	at.score, at.name, at.key, at.last = e.score, e.name, "", 0
	if key, score, ok := strings.Cut(e.line, " "); ok {
		at.key = key
		at.last, _ = strconv.ParseFloat(score, 64) // a script wrote it, so it is a number
	}
	l.put(e)
	if l.full() {
		return at, nil
	}
	return l.behind(ctx, at)
}

// behind continues in the line behind the cursor's entry. It returns a cursor if the page ends
// in that line. Otherwise at points to the next entry.
func (l *lister) behind(ctx context.Context, at *listCursor) (*listCursor, error) {
	id, _ := dispatcher.ParseDeliveryID(at.name)
	more := at.key != "" && l.asks(dispatcher.StatusScheduled, dispatcher.StatusCancelled)
	for more {
		if l.spent() {
			return at, nil
		}
		args := l.args("behind", string(id.Lane), l.want(), conn.ScoreText(at.last), at.key)
		chunks, err := l.read(ctx, conn.Call{Partition: l.s.conn.PartitionOf(id.Lane), Args: args})
		if err != nil {
			return nil, err
		}
		for _, e := range chunks[0].entries {
			at.last = e.score
			if l.put(e); l.full() {
				return at, nil
			}
		}
		if more = chunks[0].more; more {
			at.last = chunks[0].last.score
		}
	}
	at.key, at.last = "", 0
	return nil, nil
}

// walkBegan returns the ms in which a walk of all statuses began, by the earliest clock of the
// masters. It returns 0 for a walk of some statuses, because these can be few among many
// deliveries.
func (l *lister) walkBegan(ctx context.Context, goesOn bool, at listCursor) (int64, error) {
	if goesOn {
		return at.began, nil
	}
	if f := &l.f; len(f.Statuses)+len(f.Reasons)+len(l.of) > 0 || !slices.Contains(sectionsOf(f), sectionMoved) {
		return 0, nil
	}
	first := time.Time{}
	for _, r := range l.s.conn.Send(ctx, conn.Batch{Script: l.s.scripts.List, Calls: l.s.conn.Everywhere(l.args(sectionReady, "", 1, "", ""))}) {
		h, _ := r.Hint()
		if r.Err != nil {
			return 0, l.s.conn.InPartition(r.Partition, r.Err)
		}
		if first.IsZero() || h.Now.Before(first) {
			first = h.Now
		}
	}
	return first.UnixMilli(), nil
}

// moved reads the deliveries that moved after a walk of all statuses began, because they can
// have moved past the page. It skips those that are already on this page.
func (l *lister) moved(ctx context.Context, at listCursor) (*listCursor, error) {
	if l.began == 0 {
		return nil, nil
	}
	listed := make(map[dispatcher.DeliveryID]bool, len(l.page.Deliveries))
	for i := range l.page.Deliveries {
		listed[l.page.Deliveries[i].ID] = true
	}
	for ; at.partition < l.s.conn.Partitions(); at = (listCursor{section: sectionMoved, partition: at.partition + 1}) {
		for more := true; more; {
			if l.spent() {
				return &at, nil
			}
			args := l.args(sectionMoved, at.known, l.want(), conn.ScoreText(at.score), at.name)
			before := l.page.LookedAt
			chunks, err := l.read(ctx, conn.Call{Partition: at.partition, Args: args})
			if err != nil {
				return nil, err
			}
			l.cost += costOfState*(l.page.LookedAt-before) + costOfShelf*movedLanes
			for _, e := range chunks[0].entries {
				at.known, at.score, at.name = e.line, e.score, e.name
				if !listed[e.delivery.ID] {
					l.put(e)
				}
				if l.full() {
					return &at, nil
				}
			}
			last := chunks[0].last
			at.known, at.score, at.name, more = last.known, last.score, last.name, chunks[0].more
		}
	}
	return nil, nil
}
