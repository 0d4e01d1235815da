package redisq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	score    int64 // ready: the position in its lane
}

// List reads a page.
func (s *Store) List(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	at, err := parseCursor(f.Cursor)
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
		if len(l.wanted(at.section)) == 0 {
			continue
		}
		next, err := l.section(ctx, at)
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
}

// wanted are the indexes of a section that may hold what the filter asks for.
func (l *lister) wanted(section string) []string {
	var out []string
	for index, statuses := range indexes[section] {
		if len(l.f.Statuses) == 0 || slices.ContainsFunc(statuses, func(st dispatcher.Status) bool {
			return slices.Contains(l.f.Statuses, st)
		}) {
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
		if next := l.take(entries, &at); next != nil {
			return next, nil
		}
		if !more {
			return nil, nil
		}
	}
	return nil, nil
}

// ready reads the lanes' lists one after another, by the lanes' names.
func (l *lister) ready(ctx context.Context, at cursor) (*cursor, error) {
	lanes, err := l.lanes(ctx, at.lane)
	if err != nil {
		return nil, err
	}
	for _, lane := range lanes {
		if lane != at.lane {
			at = cursor{section: sectionReady, lane: lane}
		}
		from := []source{{partition: l.s.partition(dispatcher.Lane(lane)), index: "ready", of: lane}}
		for {
			entries, more, err := l.merge(ctx, from, at)
			if err != nil {
				return nil, err
			}
			if next := l.take(entries, &at); next != nil {
				return next, nil
			}
			if !more {
				break
			}
		}
	}
	return nil, nil
}

// lanes are those with something waiting, from one name on; where the filter
// names lanes, only they are looked at.
func (l *lister) lanes(ctx context.Context, first string) ([]string, error) {
	var out []string
	if len(l.f.Lanes) > 0 {
		for _, lane := range l.f.Lanes {
			out = append(out, string(lane))
		}
	} else {
		err := l.s.eachLane(ctx, func(s laneState) {
			if s.waiting > 0 {
				out = append(out, s.lane)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	from, _ := slices.BinarySearch(out, first)
	return out[from:], nil
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

// take puts what matches on the page. It answers a cursor when the page is
// full, or enough was read for one page.
func (l *lister) take(entries []listed, at *cursor) *cursor {
	for _, e := range entries {
		at.score, at.name = e.score, e.name
		l.read++
		if e.delivery.ID.Message != "" && matches(l.f, e.delivery) {
			l.page.Deliveries = append(l.page.Deliveries, e.delivery)
		}
		if len(l.page.Deliveries) >= l.limit || l.read >= listMost {
			return at
		}
	}
	return nil
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
		f.room = a.text()
		id, ok := dispatcher.ParseDeliveryID(e.name)
		if a.err != nil || !ok {
			return nil, errors.Join(a.err, errAnswer)
		}
		if head != "" {
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
