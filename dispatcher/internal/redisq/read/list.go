package read

import (
	"cmp"
	"context"
	"encoding/json"
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
	for i, r := range l.s.conn.Send(ctx, conn.Batch{Script: listScript, Calls: calls}) {
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
	for _, r := range l.s.conn.Send(ctx, conn.Batch{Script: listScript, Calls: l.s.conn.Everywhere(l.args(sectionReady, "", 1, "", ""))}) {
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

// listCursor is the end of a page: the section, and the score and name of the last entry that
// was read. Ready lists and marks need more, because they have no common order. Both need the
// partition and the cursor of its scan. Ready lists need the lane, with the position as the
// score.
//
// If the page ended among deliveries that wait behind an entry, the cursor has their ordering
// key and the last score. Moved deliveries are searched in the lanes of a partition. For them
// the cursor has the lane's ms in :known as known, and the ms of acceptance as the score.
type listCursor struct {
	section, lane string
	partition     int
	scan          uint64
	server        string // the scan is valid only for this process
	placed        bool   // it has only a place in the order, from a page of shelves
	score         float64
	name          string // empty: at the start of the section or lane
	key           string // empty: no delivery waits behind it, or all were read
	last          float64
	known         string
	began         int64 // ms when a walk of all statuses began; 0: it is another walk
}

// text returns the cursor before it is sealed.
func (c listCursor) text() string {
	return strings.Join([]string{
		c.section, c.lane, strconv.Itoa(c.partition), strconv.FormatUint(c.scan, 10),
		conn.ScoreText(c.score), c.name, c.key, conn.ScoreText(c.last), c.server, c.known, strconv.FormatInt(c.began, 10),
	}, " ")
}

// readCursor parses the result of text.
func readCursor(text string) (c listCursor, err error) {
	f := strings.Split(text, " ")
	if len(f) != 11 || !slices.Contains(sections, f[0]) {
		return c, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	c.section, c.lane, c.name, c.key, c.server = f[0], f[1], f[5], f[6], f[8]
	c.known = f[9]
	var errs [5]error
	c.partition, errs[0] = strconv.Atoi(f[2])
	c.scan, errs[1] = strconv.ParseUint(f[3], 10, 64)
	c.score, errs[2] = strconv.ParseFloat(f[4], 64)
	c.last, errs[3] = strconv.ParseFloat(f[7], 64)
	c.began, errs[4] = strconv.ParseInt(f[10], 10, 64)
	for _, err := range errs {
		if err != nil || c.partition < 0 || c.began < 0 || c.score != c.score || c.last != c.last {
			return listCursor{}, fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
		}
	}
	return c, nil
}

// placeOrCursor parses a cursor, or the place of a page that was read from shelves.
func placeOrCursor(f *dispatcher.Filter, sealed []byte) (at listCursor, err error) {
	var text string
	if json.Unmarshal(sealed, &text) == nil {
		return readCursor(text)
	}
	var place dispatcher.EndPlace
	if err := json.Unmarshal(sealed, &place); err != nil {
		return at, fmt.Errorf("%w: %q", dispatcher.ErrCursor, f.Cursor)
	}
	at = listCursor{section: sectionEnded, score: conn.ToScore(place.At), name: place.ID, placed: true}
	switch {
	case f.Order == dispatcher.OrderDue:
		at.section = sectionDue
	case f.Part == dispatcher.PartUnfinished:
		at.section = unfinished[0]
	}
	return at, nil
}

// anyPlace returns the place of a cursor among ends or next attempts; nil: it has none.
func (c listCursor) anyPlace() *dispatcher.EndPlace {
	if c.name == "" {
		return nil
	}
	return &dispatcher.EndPlace{At: conn.FromScore(c.score), ID: c.name}
}

// goesOn stores the process of a partition's server that replied. It reports whether the
// cursor's scan is from that process, or at its start. If not, the cursor returns to the
// start, and the section returns some deliveries again.
func goesOn(at *listCursor, server string) bool {
	same := at.server == server || at.scan == 0 && at.lane == "" && at.name == ""
	if !same {
		*at = listCursor{section: at.section, partition: at.partition}
	}
	at.server = server
	return same
}

// listAt returns the start of a page.
func (s *Deliveries) listAt(ctx context.Context, f *dispatcher.Filter) (at listCursor, err error) {
	switch {
	case f.Part == dispatcher.PartEnded && f.From != nil:
		return listCursor{section: sectionEnded, score: conn.ToScore(f.From.At), name: cmp.Or(f.From.ID, "\x00")}, nil
	case f.Cursor == "":
		return at, nil
	}
	var sealed json.RawMessage
	if err = s.conn.Cursors().Open(ctx, ShelfListOf(*f), f.Cursor, &sealed); err == nil {
		at, err = placeOrCursor(f, sealed)
	}
	if err == nil && (!slices.Contains(sectionsOf(f), at.section) || at.partition >= s.conn.Partitions()) {
		err = fmt.Errorf("%w: %q", dispatcher.ErrCursor, f.Cursor)
	}
	return at, err
}

// place returns the place of a cursor among the ends, or nil for a cursor of another section.
func (c listCursor) place() *dispatcher.EndPlace {
	if c.section != sectionEnded {
		return nil
	}
	return &dispatcher.EndPlace{At: conn.FromScore(c.score), ID: c.name}
}

// millisOf returns the first whole ms that is not before t.
func millisOf(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// shelved reads a page of a list of some lanes, tenants or subjects, from their index. If the
// index is too large, or too large to sort, it reads by status. With few lanes, a name of
// another lane then costs no more. A list by status continues by status until its end, because
// the two orders have different places.
func (s *Deliveries) shelved(ctx context.Context, f dispatcher.Filter) (page dispatcher.Page, err error) {
	at, err := s.listAt(ctx, &f)
	if err != nil {
		return page, err
	}
	if f.Cursor != "" && !at.placed {
		return s.listOf(ctx, f)
	}
	if f.Order != dispatcher.OrderAccepted {
		var whole bool
		if page, whole, err = s.shelf.Whole(ctx, f, at.anyPlace()); whole || err != nil && !errors.Is(err, ErrMore) {
			return page, err
		}
		return s.listOf(ctx, f)
	}
	page, err = s.shelf.Accepted(ctx, f)
	switch {
	case !errors.Is(err, ErrMore):
		return page, err
	case f.Cursor != "" || f.From != nil:
		return page, fmt.Errorf("%w: %w", dispatcher.ErrCursor, err)
	}
	return s.listOf(ctx, f)
}

// List returns a page. It returns an error if a part of the queue that may have more entries
// was emptied, unless the filter requests the remaining ones.
func (s *Deliveries) List(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	read := s.listOf
	if f.Order != "" && f.OfSome() {
		read = s.shelved
	}
	if f.Left {
		return read(ctx, f)
	}
	err := s.conn.LostOf(f.Lanes)
	var page dispatcher.Page
	if err == nil {
		page, err = read(ctx, f)
	}
	if err == nil && len(page.Deliveries) == 0 && page.Next == "" {
		err = s.conn.IntactOf(ctx, f.Lanes)
	}
	if conn.IsLoss(err) {
		return dispatcher.Page{}, fmt.Errorf("list: %w", err)
	}
	return page, err
}

// ListPlace returns the place after which a page of a list by acceptance begins; nil: at the
// newest.
func (s *Deliveries) ListPlace(ctx context.Context, f dispatcher.Filter) (*dispatcher.EndPlace, error) {
	return s.shelf.ListPlace(ctx, f)
}

// ListCursor returns the cursor for such a list after a place.
func (s *Deliveries) ListCursor(ctx context.Context, f dispatcher.Filter, at dispatcher.EndPlace) (string, error) {
	return s.shelf.ListCursor(ctx, f, at)
}
