// Package shelf pages the lists that lanes have of all their deliveries: each from its
// acceptance until it is forgotten, whatever its state.
//
// :of:<lane> is a sorted set of message ids by ms of acceptance. A delivery exists if and
// only if it is there: its record is longer than a digest, and names its lane as not gone.
// The score is the time in the record. So no move changes the set, and doctor can prove each
// entry. Two scripts add to it: schedule, also for what ends at once, and restore_put. Two
// functions remove from it: forget of cut.lua, and drop of order.lua. A repartition moves it
// as it moves the ready list of a lane.
//
// The state is read in the same script as the names: in two scripts a delivery could move
// between them. A place on the way is a ms, a lane of the filter and an id.
package shelf

import (
	"cmp"
	"context"
	_ "embed" // the script
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/cursor"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

//go:embed lua/shelf.lua
var shelfSrc string

// Bounds of one page, in units of some 0.35 µs of Redis. A name with its state costs
// 10 µs, a record 6, and a lane 2. So a page takes 20 ms at most. A page that costs more
// ends short, with a place to go on from. One call of the script reads at most lanesMost
// lanes.
const (
	pageCost     = 50_000
	costOfName   = 28
	costOfRecord = 16
	costOfLane   = 6
	costOfScript = 100
	lanesMost    = 256
	leastWanted  = 8
	wantedMost   = 256 // of one call, as its script has it
)

// Place is where a page ended. It names a delivery of a lane of the filter, so it tells
// nothing of others.
type Place struct {
	At      time.Time // of the acceptance
	Lane    dispatcher.Lane
	Message string
}

// newer orders places as a list does: the newest first, and in one ms by the names.
func newer(a, b Place) int {
	return cmp.Or(b.At.Compare(a.At), strings.Compare(string(b.Lane), string(a.Lane)), strings.Compare(b.Message, a.Message))
}

// Entry is what the store keeps of a delivery.
type Entry struct {
	Place
	Status   dispatcher.Status
	Time     time.Time // of its end, next attempt or claim; zero: it has none
	WaitsFor string    // a word, with the ms of the end or how many go first; empty: nothing
	Head     string    // of its message's record; empty: it can't be read
	Progress string    // its entry of :progress; empty: none
	Newest   string    // of its history; empty: none
}

// Options are what a Reader needs of the store.
type Options struct {
	Conn *conn.Client
	// Names are the number of those who may hold leases, then their names.
	Names func(context.Context) ([]any, error)
	// Decode makes a delivery of an entry. It reports false for what can't be read.
	Decode func(Entry) (dispatcher.Delivery, bool)
	// Matches reports whether a filter selects a delivery that was accepted at a time.
	Matches func(f dispatcher.Filter, d *dispatcher.Delivery, at time.Time) bool
}

// Reader reads the lists.
type Reader struct {
	o      Options
	conn   *conn.Client
	script script.Script
	sealer *cursor.Sealer

	subjects script.Script
}

// NewReader makes a Reader.
func NewReader(o Options) *Reader {
	test := o.Conn.TestClock()
	return &Reader{
		o: o, conn: o.Conn, sealer: cursor.New(o.Conn),
		script: script.Make(test, "shelf", script.Read, shelfSrc), subjects: script.Make(test, "subjects", subjectsSrc),
	}
}

// one is an entry that the filter selects.
type one struct {
	at Place
	d  dispatcher.Delivery
}

// lanesPart is what one call of the script answered.
type lanesPart struct {
	entries []one
	more    bool
	reached Place // all before it was looked at, and it too
}

// listing is a page that is being read.
type listing struct {
	dispatcher.Page
	reached Place
	more    bool
	cost    int
}

// Accepted reads a page of the deliveries of some lanes, the newest accepted first. A
// delivery that is there during the whole walk is on one page, once, however it moves.
func (r *Reader) Accepted(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	if f.Failed && len(f.Statuses) == 0 {
		f.Statuses = slices.DeleteFunc(slices.Clone(dispatcher.Statuses), dispatcher.Status.Ended)
	}
	f.Limit = cmp.Or(f.Limit, 50)
	p := listing{more: true}
	if !f.Until.IsZero() {
		p.reached.At = ceil(f.Until)
	}
	names, err := r.o.Names(ctx)
	if err == nil && f.Cursor != "" {
		err = r.sealer.Open(ctx, listOf(f), f.Cursor, &p.reached)
	}
	for err == nil && p.more && len(p.Deliveries) < f.Limit && p.cost < pageCost {
		var parts []lanesPart
		if parts, err = r.read(ctx, f, names, &p); err == nil {
			p.join(parts, f.Limit)
		}
	}
	if err == nil && p.more {
		p.Next, err = r.sealer.Seal(ctx, listOf(f), p.reached)
	}
	if err != nil {
		return dispatcher.Page{}, fmt.Errorf("list by acceptance: %w", err)
	}
	return p.Page, nil
}

// listOf names the list of a filter, whatever its times.
func listOf(f dispatcher.Filter) string {
	f.Limit, f.Cursor, f.From, f.Since, f.Until = 0, "", nil, time.Time{}, time.Time{}
	return dispatcher.ListName("accepted", f)
}

// read calls the script once for each group of lanes, all in one round trip.
func (r *Reader) read(ctx context.Context, f dispatcher.Filter, names []any, p *listing) (parts []lanesPart, err error) {
	wanted := max(f.Limit-len(p.Deliveries), leastWanted)
	if f.OfMessage() || len(f.Reasons) > 0 {
		wanted = wantedMost // of which only Go knows which match
	}
	args := slices.Concat(names, []any{wanted}, p.reached.args(), []any{millis(f.Since), words(f.Statuses)})
	var calls []conn.Call
	for n, lanes := range groups(f.Lanes, r.conn.Partitions()) {
		for some := range slices.Chunk(lanes, lanesMost) {
			call := conn.Call{Partition: n, Args: slices.Clone(args)}
			for _, lane := range some {
				call.Args = append(call.Args, string(lane))
			}
			calls = append(calls, call)
			p.cost += costOfScript + costOfLane*len(some)
		}
	}
	for _, a := range r.conn.Send(ctx, conn.Batch{Script: r.script, Calls: calls}) {
		a.Hint()
		one, err := r.readPart(&a.Reply, f, p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, one)
	}
	return parts, nil
}

// readPart reads what one call answered.
func (r *Reader) readPart(a *conn.Reply, f dispatcher.Filter, p *listing) (lanesPart, error) {
	out := lanesPart{more: a.Number() == 1}
	looked, records := int(a.Number()), int(a.Number())
	p.LookedAt += looked
	p.cost += costOfName*looked + costOfRecord*records
	out.reached = Place{At: a.Time(), Lane: dispatcher.Lane(a.Text()), Message: a.Text()}
	for a.More() {
		e := readEntry(a)
		if d, ok := r.o.Decode(e); ok && r.o.Matches(f, &d, e.At) {
			out.entries = append(out.entries, one{at: e.Place, d: d})
		}
	}
	return out, a.Err
}

// args are a place as the script takes it.
func (p Place) args() []any {
	if p == (Place{}) {
		return []any{"", "", ""}
	}
	return []any{p.At.UnixMilli(), string(p.Lane), p.Message}
}

// words puts a space at both ends of each status; empty: there is none.
func words(statuses []dispatcher.Status) string {
	text := ""
	for _, status := range statuses {
		text += " " + string(status)
	}
	if text != "" {
		text += " "
	}
	return text
}

func readEntry(a *conn.Reply) Entry {
	name := a.Text()
	e := Entry{Place: Place{At: a.Time()}, Status: dispatcher.Status(a.Text()), Time: a.Time()}
	e.WaitsFor, e.Head, e.Progress, e.Newest = a.Text(), a.Text(), a.Text(), a.Text()
	lane, id, _ := strings.Cut(name, ":")
	e.Lane, e.Message = dispatcher.Lane(lane), id
	return e
}

// groups are the lanes by their partitions, each lane once.
func groups(lanes []dispatcher.Lane, partitions int) map[int][]dispatcher.Lane {
	by := map[int][]dispatcher.Lane{}
	for _, lane := range slices.Compact(slices.Sorted(slices.Values(lanes))) {
		n := keys.Partition(string(lane), partitions)
		by[n] = append(by[n], lane)
	}
	return by
}

// join puts what was read in one order. It is whole up to the newest place at which a
// part that goes on ended: another part may have entries behind that.
func (p *listing) join(parts []lanesPart, limit int) {
	var all []one
	var bound *Place
	for i := range parts {
		all = append(all, parts[i].entries...)
		if parts[i].more && (bound == nil || newer(parts[i].reached, *bound) < 0) {
			bound = &parts[i].reached
		}
	}
	slices.SortFunc(all, func(a, b one) int { return newer(a.at, b.at) })
	for _, e := range all {
		if bound != nil && newer(e.at, *bound) > 0 {
			break
		}
		if len(p.Deliveries) == limit {
			return
		}
		p.Deliveries, p.reached = append(p.Deliveries, e.d), e.at
	}
	if p.more = bound != nil; p.more {
		p.reached = *bound
	}
}

// ceil is the first whole ms that is not before t.
func ceil(t time.Time) time.Time {
	return time.UnixMilli(t.Add(time.Millisecond - 1).UnixMilli()).UTC()
}

// millis is ceil as a script takes it; empty of zero.
func millis(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(ceil(t).UnixMilli(), 10)
}
