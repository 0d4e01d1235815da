package redisq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// Bounds of one page: listChunk entries are read in one call, and after
// listMost entries that did not match the page ends short, with a cursor.
const (
	listChunk = 256
	listMost  = 5000
)

// A list goes through up to four sections, in the order of their times: what
// waits for a time in the future, what is under way and what is ready now,
// what has ended. A status is its own index; there is none for anything else.
// What waits behind another with its ordering key is told right after that one.
const (
	sectionDue    = "due"
	sectionLeases = "leases"
	sectionReady  = "ready"
	sectionEnded  = "ended"
)

var sections = []string{sectionDue, sectionLeases, sectionReady, sectionEnded}

// indexes are what a section is merged from, by the statuses they hold.
var indexes = map[string]map[string][]dispatcher.Status{
	sectionDue:    {"due": {dispatcher.StatusScheduled, dispatcher.StatusRetrying}},
	sectionLeases: {"leases": {dispatcher.StatusInFlight, dispatcher.StatusCancelled, dispatcher.StatusDelivered}},
	sectionReady:  {"ready": {dispatcher.StatusReady, dispatcher.StatusCancelled, dispatcher.StatusDelivered}},
	sectionEnded: {
		"done":      {dispatcher.StatusDelivered},
		"dead":      {dispatcher.StatusDead},
		"cancelled": {dispatcher.StatusCancelled},
	},
}

// source is one index of one partition.
type source struct {
	partition int
	index, of string // of: the instance or lane
}

// listed is one delivery of a list, with what a cursor needs.
type listed struct {
	delivery dispatcher.Delivery
	name     string
	score    int64  // ready: the position in its lane
	line     string // key and score of the line in which others wait behind it; empty: none do
}

// List reads a page.
func (s *Store) List(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	at, err := parseCursor(f.Cursor)
	if err == nil && at.section == sectionLanes {
		err = fmt.Errorf("%w: %q", dispatcher.ErrCursor, f.Cursor)
	}
	if err != nil {
		return dispatcher.Page{}, err
	}
	names, err := s.names(ctx)
	if err != nil {
		return dispatcher.Page{}, err
	}
	l := &lister{s: s, f: f, names: names, limit: cmp.Or(f.Limit, 50)}
	for i := max(slices.Index(sections, at.section), 0); i < len(sections); i++ {
		if at.section != sections[i] {
			at = cursor{section: sections[i]}
		}
		if err := l.survey(ctx, at.section); err != nil {
			return dispatcher.Page{}, fmt.Errorf("list: %w", err)
		}
		if len(l.wanted(at.section)) == 0 {
			continue
		}
		next, err := l.behind(ctx, &at)
		if err == nil && next == nil {
			next, err = l.section(ctx, at)
		}
		if err != nil {
			return dispatcher.Page{}, fmt.Errorf("list: %w", err)
		}
		if next != nil {
			l.page.Next = next.String()
			break
		}
	}
	return l.page, nil
}

// lister fills one page.
type lister struct {
	s     *Store
	f     dispatcher.Filter
	names []any
	limit int
	read  int // entries looked at
	page  dispatcher.Page

	surveyed bool
	waiting  []string // lanes whose ready list may hold what is asked for, by name
	deleted  bool     // something waits in lanes of deleted endpoints: it is cancelled
}

// wanted are the indexes of a section that may hold what the filter asks for.
func (l *lister) wanted(section string) []string {
	var out []string
	for index, statuses := range indexes[section] {
		if l.asks(statuses...) || l.asks(l.strays(index)...) {
			out = append(out, index)
		}
	}
	slices.Sort(out)
	return out
}

// section reads on in one section; the cursor it answers is nil when the
// section is at its end.
func (l *lister) section(ctx context.Context, at cursor) (*cursor, error) {
	if at.section == sectionReady {
		return l.ready(ctx, at)
	}
	var from []source
	for n := range l.s.tags {
		for _, index := range l.wanted(at.section) {
			if index != "leases" {
				from = append(from, source{partition: n, index: index})
				continue
			}
			for _, name := range l.names[1:] {
				from = append(from, source{partition: n, index: index, of: name.(string)})
			}
		}
	}
	for len(from) > 0 {
		entries, more, err := l.merge(ctx, from, at)
		if err != nil {
			return nil, err
		}
		if next, err := l.take(ctx, entries, &at); next != nil || err != nil {
			return next, err
		}
		if !more {
			return nil, nil
		}
	}
	return nil, nil
}

// ready reads the lanes' lists one after another, by the lanes' names.
func (l *lister) ready(ctx context.Context, at cursor) (*cursor, error) {
	from, _ := slices.BinarySearch(l.waiting, at.lane)
	for _, lane := range l.waiting[from:] {
		if lane != at.lane {
			at = cursor{section: sectionReady, lane: lane}
		}
		from := []source{{partition: l.s.partition(dispatcher.Lane(lane)), index: "ready", of: lane}}
		for {
			entries, more, err := l.merge(ctx, from, at)
			if err != nil {
				return nil, err
			}
			if next, err := l.take(ctx, entries, &at); next != nil || err != nil {
				return next, err
			}
			if !more {
				break
			}
		}
	}
	return nil, nil
}

// merge reads a chunk of each source behind the cursor and puts them in one
// order, newest first. Only what no source can still come before is answered.
func (l *lister) merge(ctx context.Context, from []source, at cursor) (entries []listed, more bool, err error) {
	jobs := make([]job, len(from))
	for i, src := range from {
		after := ""
		if at.name != "" {
			after = fmt.Sprint(at.score)
		}
		jobs[i] = job{partition: src.partition, args: append(slices.Clip(l.names), src.index, src.of, listChunk, after, at.name)}
	}
	var floor *listed // the last of the newest chunk that goes on
	for _, r := range l.s.run(ctx, l.s.scripts.list, "", jobs) {
		chunk, err := readListed(r)
		if err != nil {
			return nil, false, err
		}
		entries = append(entries, chunk...)
		if len(chunk) == listChunk {
			more = true
			if last := chunk[len(chunk)-1]; floor == nil || newer(last, *floor) < 0 {
				floor = &last
			}
		}
	}
	slices.SortFunc(entries, newer)
	if floor != nil {
		entries = slices.DeleteFunc(entries, func(e listed) bool { return newer(e, *floor) > 0 })
	}
	return entries, more, nil
}

// newer orders by score and then by name, the highest first, as ZREVRANGE does.
func newer(a, b listed) int {
	return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(b.name, a.name))
}

// take puts what matches on the page, each with what waits behind it. It
// answers a cursor when the page is full, or enough was read for one page.
func (l *lister) take(ctx context.Context, entries []listed, at *cursor) (*cursor, error) {
	for _, e := range entries {
		at.score, at.name, at.key, at.last = e.score, e.name, "", 0
		if key, score, ok := strings.Cut(e.line, " "); ok {
			at.key = key
			at.last, _ = strconv.ParseInt(score, 10, 64) // of a script: a number
		}
		if l.put(e) {
			return at, nil
		}
		if next, err := l.behind(ctx, at); next != nil || err != nil {
			return next, err
		}
	}
	return nil, nil
}

// put puts an entry on the page if it matches, and reports whether the page ends.
func (l *lister) put(e listed) bool {
	l.read++
	if e.delivery.ID.Message != "" && matches(l.f, e.delivery) {
		l.page.Deliveries = append(l.page.Deliveries, e.delivery)
	}
	return len(l.page.Deliveries) >= l.limit || l.read >= listMost
}

func matches(f dispatcher.Filter, d dispatcher.Delivery) bool {
	any := func(n int, has bool) bool { return n == 0 || has }
	at := d.Ended
	if at.IsZero() {
		at = d.Due
	}
	return any(len(f.Statuses), slices.Contains(f.Statuses, d.Status)) &&
		any(len(f.Topics), slices.Contains(f.Topics, d.Topic)) &&
		any(len(f.Tenants), slices.Contains(f.Tenants, d.Tenant)) &&
		any(len(f.Lanes), slices.Contains(f.Lanes, d.ID.Lane)) &&
		any(len(f.Reasons), slices.Contains(f.Reasons, d.Reason)) &&
		(f.Since.IsZero() || !at.Before(f.Since)) && (f.Until.IsZero() || at.Before(f.Until))
}

// readListed reads a chunk. A delivery without a record has only its name.
func readListed(r reply) ([]listed, error) {
	a := answer{values: r.values, err: r.err}
	a.hintIf(0)
	var out []listed
	for a.more() {
		e := listed{name: a.text(), score: a.number()}
		f := facts{at: a.time(), status: a.text()}
		head := a.text()
		f.progress = a.text()
		if newest := a.text(); newest != "" {
			f.history = []string{newest}
		}
		f.waitsFor, e.line = a.text(), a.text()
		id, ok := dispatcher.ParseDeliveryID(e.name)
		if a.err != nil {
			return nil, a.err
		}
		if ok && head != "" { // a name that is none is passed over: one that a hand wrote must not stop the list
			m, err := decodeRecord(id.Message, head)
			if err != nil {
				return nil, err
			}
			f.lane = string(id.Lane)
			if e.delivery, err = f.delivery(m); err != nil {
				return nil, err
			}
			e.delivery.History = nil
		}
		out = append(out, e)
	}
	return out, a.err
}
