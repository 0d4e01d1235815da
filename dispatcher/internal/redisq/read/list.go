package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/shelf"
)

// Bounds of one page. A script reads at most listChunk records, as many as the
// page still needs and at least listLeast. The names and records that are read
// for one page may cost Redis listMost together, in units of some 0.35 µs: a name
// takes 1 µs, and a record 6. A page that costs more ends short, with a cursor.
const (
	listChunk = 256
	listLeast = 8
	listMost  = 55_000

	costOfName   = 3
	costOfRecord = 16
	costOfLane   = 2
	costOfScan   = 7 // of a lane's state
	costOfScript = 100
	costOfState  = 25 // beside its name
	costOfShelf  = 12 // of a lane in which something may have moved
	movedLanes   = 64 // of one call, as its script has it
)

// A list goes through up to seven sections. First come deliveries that ended and are still in
// their place, then those that have ended. Those under way follow, then those that are taken,
// by the ends of their leases, and those that are ready. Last come those that wait for a time.
// Each status has an index of its own; nothing else has one. Deliveries that wait behind
// another of their ordering key come right after that one. A delivery can move past the page
// that is read. So a list of all statuses shows at its end what moved since it began, some of
// that once more: it misses none that was there throughout.
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

// unfinished are the sections of what is in no end set yet. They are read in the order of the
// flow: what moves on meanwhile is in a later one.
var unfinished = []string{sectionDue, sectionReady, sectionLeases, sectionTaken, sectionMarks}

// listed is one delivery of a list, with the values that a cursor needs.
type listed struct {
	delivery dispatcher.Delivery
	name     string
	score    float64   // ready: the position in its lane
	at       time.Time // of its end, next attempt or claim; zero if it has none
	line     string    // key and score of the line in which others wait behind it; empty: no others wait; moved: the ms in :known of its lane
}

// namedLanes bounds the lanes by which names are chosen: a script compares each name with them.
const namedLanes = 64

// listOf walks the statuses for deliveries of some lanes, or of tenants with as few.
func (s *Deliveries) listOf(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	if len(f.Lanes) > 0 || len(f.Tenants) == 0 {
		return s.list(ctx, f, f.Lanes)
	}
	shelves, err := s.shelf.Shelves(ctx, f.Tenants)
	if err != nil && !errors.Is(err, shelf.ErrMore) {
		return dispatcher.Page{}, fmt.Errorf("list: %w", err)
	}
	var lanes []dispatcher.Lane
	for _, names := range shelves {
		for _, name := range names {
			lane, _ := shelf.Lane(name)
			lanes = append(lanes, dispatcher.Lane(lane))
		}
	}
	if err != nil || len(lanes) > namedLanes {
		lanes = nil
	}
	return s.list(ctx, f, lanes)
}

// list reads a page. It looks at lanes only; none: at all of them.
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
			l.page.Next, err = s.sealer.Seal(ctx, shelf.ListOf(f), next.text())
			return l.page, err
		}
	}
	return l.page, nil
}

// lister fills one page.
type lister struct {
	s     *Deliveries
	f     dispatcher.Filter
	of    []dispatcher.Lane // it looks at no others; none: it looks at all
	names []any
	limit int
	cost  int // of what was read so far
	page  dispatcher.Page
	up    bool  // the section's entries are in the order of their scores, else newest first
	began int64 // ms when the walk began; 0: nothing moves in it

	statuses, reasons, lanes string // the filters, as the script takes them
	byMarks                  bool   // marked deliveries are found by their marks
}

func newLister(s *Deliveries, f dispatcher.Filter, names []any, of []dispatcher.Lane) *lister {
	if f.Failed && len(f.Statuses) == 0 {
		f.Statuses = slices.DeleteFunc(slices.Clone(dispatcher.Statuses), dispatcher.Status.Ended)
	}
	l := &lister{s: s, f: f, of: of, names: names, limit: cmp.Or(f.Limit, 50)}
	l.statuses, l.reasons, l.lanes = shelf.Words(f.Statuses), shelf.Words(f.Reasons), shelf.Words(of)
	l.byMarks = len(f.Statuses) > 0 && l.asks(dispatcher.StatusDelivered, dispatcher.StatusCancelled)
	return l
}

// asks reports whether the filter asks for any of some statuses.
func (l *lister) asks(statuses ...dispatcher.Status) bool {
	if len(l.f.Statuses) == 0 {
		return true
	}
	return slices.ContainsFunc(statuses, func(st dispatcher.Status) bool { return slices.Contains(l.f.Statuses, st) })
}

// spent reports that the page has cost enough.
func (l *lister) spent() bool { return l.cost >= listMost }

// section reads on in one section. It answers a nil cursor at the end of the
// section.
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

// put puts an entry on the page if it matches.
func (l *lister) put(e listed) {
	if e.delivery.ID.Message != "" && l.f.Matches(&e.delivery, e.at) {
		l.page.Deliveries = append(l.page.Deliveries, e.delivery)
	}
}

func (l *lister) full() bool { return len(l.page.Deliveries) >= l.limit }

// chunk is the answer of one call of the script.
type chunk struct {
	entries []listed
	more    bool
	last    listCursor // score (for marks the scan's cursor and process) and name of the last one read
}

// want is how many entries one call asks for.
func (l *lister) want() int { return min(max(l.limit-len(l.page.Deliveries), listLeast), listChunk) }

// args are the arguments of the script for one index.
func (l *lister) args(index, of string, wanted int, after, last string) []any {
	return append(slices.Clip(l.names), index, of, wanted, after, last, l.statuses, l.reasons, l.lanes, conn.Flag(l.byMarks), l.began)
}

// read calls the script some times, all in one round trip.
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

// readListed reads one entry. A delivery without a record has only its name.
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
	if !ok || head == "" { // a malformed name, written by hand, must not stop the list
		return e, nil
	}
	m, err := codec.DecodeRecord(id.Message, head)
	f.lane = string(id.Lane)
	e.delivery = f.delivery(m, id.Message)
	e.delivery.History = nil
	if err != nil {
		e.delivery.LastError = codec.ErrRecord.Error()
	}
	return e, nil
}

// take puts a chunk's entries on the page, each followed by those that wait
// behind it. It answers a cursor if the page ends there. Otherwise at is where
// to go on.
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

// behind goes on in the line behind the entry of the cursor. It answers a
// cursor if the page ends in that line. Otherwise at is ready to go on.
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

// walkBegan is the ms in which a walk of all began, by the earliest clock of the masters. 0: it is a walk
// of some statuses, and those can be few where all are many.
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

// moved reads the deliveries that moved since a walk of all began, because they can have moved past the
// page that was read. It leaves out those that this page has already.
func (l *lister) moved(ctx context.Context, at listCursor) (*listCursor, error) {
	if l.began == 0 {
		return nil, nil
	}
	told := make(map[dispatcher.DeliveryID]bool, len(l.page.Deliveries))
	for i := range l.page.Deliveries {
		told[l.page.Deliveries[i].ID] = true
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
				if !told[e.delivery.ID] {
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
