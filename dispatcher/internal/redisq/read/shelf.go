package read

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// :of:<lane> is a sorted set of message ids by ms of acceptance. A delivery
// exists if and only if it is in this set: its record is longer than a digest,
// and names its lane as not gone. The score is the time in the record. So no
// move changes the set, and doctor can prove each entry. Two scripts add to it:
// schedule, also for deliveries that end at once, and restore_put. Two
// functions remove from it: forget of cut.lua, and drop of order.lua. A
// repartition moves it in the same way as the ready list of a lane.
//
// The state is read in the same script as the names, because a delivery could
// move between two scripts. A place in the list is a ms, a lane of the filter
// and an id.

// Limits on one page, in units of some 0.35 µs of Redis. A name with its state
// costs 10 µs, a name that is passed over because it was not attempted 1, a record
// 6, and a lane 2. So a page takes 20 ms at most. A page that costs more is short
// and returns a cursor. A list of failed deliveries that has found none continues up
// to failedCost, because they are often the oldest of a lane, behind all that wait.
// One call of the script reads at most lanesMost lanes.
const (
	pageCost          = 36_000
	failedCost        = 30 * pageCost // 300,000 names
	shelfCostOfName   = 28
	shelfCostOfPassed = 3
	shelfCostOfRecord = 16
	shelfCostOfLane   = 6
	shelfCostOfScript = 100
	lanesMost         = 256
	leastWanted       = 8
	wantedMost        = 256 // of one call, by the limit of its script
)

// place is the end of a page: a ms of acceptance, and the name of a delivery.
// The lane is a lane of the filter, so the cursor reveals nothing about others.
type place = dispatcher.EndPlace

// newerPlace compares places in the order of a list: the newest first, and within
// one ms by the names.
func newerPlace(a, b place) int { return b.Compare(a) }

// ShelfEntry is the stored data of a delivery.
type ShelfEntry struct {
	Accepted time.Time
	ID       dispatcher.DeliveryID
	Status   dispatcher.Status
	Time     time.Time // of its end, next attempt or claim; zero: it has none
	WaitsFor string    // a word, with the ms of the end or the number of deliveries before it; empty: nothing
	Head     string    // of its message's record; empty: it can't be read
	Progress string    // its entry of :progress; empty: none
	Newest   string    // of its history; empty: none
}

// ShelfReader reads the lists.
type ShelfReader struct{ conn *conn.Client }

// NewShelfReader returns a ShelfReader.
func NewShelfReader(c *conn.Client) *ShelfReader { return &ShelfReader{conn: c} }

// one is an entry that the filter selects.
type one struct {
	at place
	d  dispatcher.Delivery
}

// lanesPart is the reply to one call of the script.
type lanesPart struct {
	entries []one
	more    bool
	reached place // the last checked place; all places before it were checked
}

// listing is a page under construction.
type listing struct {
	dispatcher.Page
	reached place
	since   string // ms of the oldest acceptance; empty: any
	more    bool
	cost    int
}

// Accepted returns a page of the deliveries of some lanes, the newest accepted
// first. A delivery that exists during the whole walk is on exactly one page,
// even if it moves.
func (r *ShelfReader) Accepted(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error) {
	if f.Failed && len(f.Statuses) == 0 {
		f.Statuses = slices.DeleteFunc(dispatcher.Statuses(), dispatcher.Status.Ended)
	}
	f.Limit = input.PageSize(f.Limit, input.MaxPage)
	p := listing{more: true, since: millis(f.Since)}
	if !f.Until.IsZero() {
		p.reached.At = ceil(f.Until)
	}
	from, err := r.ListPlace(ctx, f)
	if from != nil && (f.Until.IsZero() || from.At.Before(f.Until)) {
		p.reached = *from
	}
	var q query
	if err == nil {
		q, err = r.query(ctx, f, p.reached)
	}
	for err == nil && p.more && len(p.Deliveries) < f.Limit && p.cost < p.most(f) {
		var parts []lanesPart
		if parts, err = r.read(ctx, &q, &p); err == nil {
			p.join(parts, f.Limit)
		}
	}
	if err == nil && p.more {
		p.Reached = &p.reached
		p.Next, err = r.ListCursor(ctx, f, p.reached)
	}
	if err != nil {
		return dispatcher.Page{}, fmt.Errorf("list by acceptance: %w", err)
	}
	return p.Page, nil
}

// most returns how much a page may cost.
func (p *listing) most(f dispatcher.Filter) int {
	if f.Failed && len(p.Deliveries) == 0 {
		return failedCost
	}
	return pageCost
}

// ShelfListOf returns the name of a filter's list for its cursors. The times of the
// filter are not part of it.
func ShelfListOf(f dispatcher.Filter) string {
	f.Limit, f.Cursor, f.From, f.Since, f.Until = 0, "", nil, time.Time{}, time.Time{}
	return dispatcher.ListName("deliveries", f)
}

// ListCursor returns the cursor of a list by acceptance whose page ended at a
// place.
func (r *ShelfReader) ListCursor(ctx context.Context, f dispatcher.Filter, at dispatcher.EndPlace) (string, error) {
	return r.conn.Cursors().Seal(ctx, ShelfListOf(f), at)
}

// ListPlace returns the place after which a page of a list by acceptance
// begins. It returns nil for the first page.
func (r *ShelfReader) ListPlace(ctx context.Context, f dispatcher.Filter) (*dispatcher.EndPlace, error) {
	if f.Cursor == "" {
		return f.From, nil
	}
	at := new(place)
	return at, r.conn.Cursors().Open(ctx, ShelfListOf(f), f.Cursor, at)
}

// query is the set of shelves or messages that one page reads.
type query struct {
	f       dispatcher.Filter
	names   []any
	shelves map[int][]string // by partition

	bySubject bool // messages are read, and no shelves
	messages  []SubjectMessage
	older     bool // there are older messages
}

// query returns the messages or shelves that a filter reads from a place on.
func (r *ShelfReader) query(ctx context.Context, f dispatcher.Filter, from place) (query, error) {
	q := query{f: f, shelves: groups(f.Lanes, r.conn.Partitions())}
	var err error
	if q.names, err = InstanceNames(ctx, r.conn); err == nil {
		err = r.findMessages(ctx, &q, from)
	}
	if err != nil || len(f.Tenants) == 0 || q.bySubject {
		return q, err
	}
	q.shelves, err = r.Shelves(ctx, f.Tenants)
	if len(f.Lanes) > 0 {
		for n := range q.shelves {
			q.shelves[n] = slices.DeleteFunc(q.shelves[n], func(shelf string) bool {
				lane, _ := ShelfLane(shelf)
				return !slices.Contains(f.Lanes, dispatcher.Lane(lane))
			})
		}
	}
	return q, err
}

// read calls the script once for each group of shelves or messages, all in one
// round trip.
func (r *ShelfReader) read(ctx context.Context, q *query, p *listing) (parts []lanesPart, err error) {
	f := q.f
	wanted := max(f.Limit-len(p.Deliveries), leastWanted)
	calls, bound := shelfCalls(q.shelves), (*place)(nil)
	if q.bySubject {
		if calls, bound, err = r.messageCalls(ctx, q, p.reached, wanted); err != nil {
			return nil, err
		}
	}
	if bound != nil {
		parts = append(parts, lanesPart{more: true, reached: *bound})
	}
	if len(f.Topics)+len(f.Subjects)+len(f.SubjectEnds)+len(f.Reasons) > 0 || f.Failed {
		wanted = wantedMost // only Go can check which of them match
	}
	args := slices.Concat(q.names, []any{wanted}, placeArgs(p.reached), []any{p.since, ShelfWords(f.Statuses), failedWord(f)})
	for i := range calls {
		p.cost += shelfCostOfScript + shelfCostOfLane*len(calls[i].Args)
		calls[i].Args = slices.Concat(args, calls[i].Args)
	}
	for _, a := range r.conn.Send(ctx, conn.Batch{Script: shelfScript, Calls: calls}) {
		a.Hint()
		one, err := r.readPart(&a.Reply, f, p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, one)
	}
	return parts, nil
}

// shelfCalls returns the arguments of the script for shelves.
func shelfCalls(shelves map[int][]string) (calls []conn.Call) {
	for n, names := range shelves {
		for some := range slices.Chunk(names, lanesMost) {
			call := conn.Call{Partition: n}
			for _, shelf := range some {
				call.Args = append(call.Args, shelf)
			}
			calls = append(calls, call)
		}
	}
	return calls
}

// readPart reads the reply to one call.
func (r *ShelfReader) readPart(a *conn.Reply, f dispatcher.Filter, p *listing) (lanesPart, error) {
	out := lanesPart{more: a.Number() == 1}
	names, stated, records := int(a.Number()), int(a.Number()), int(a.Number())
	p.LookedAt += names
	p.cost += shelfCostOfPassed*(names-stated) + shelfCostOfName*stated + shelfCostOfRecord*records
	out.reached = place{At: a.Time(), ID: a.Text()}
	for a.More() {
		e := readEntry(a)
		if d, ok := decodeShelved(e); ok && f.Matches(&d, timeOf(f.Order, &d)) {
			out.entries = append(out.entries, one{at: place{At: e.Accepted, ID: e.ID.String()}, d: d})
		}
	}
	return out, a.Err
}

// failedWord returns the argument of the script for failed deliveries only.
func failedWord(f dispatcher.Filter) string {
	if f.Failed {
		return "1"
	}
	return ""
}

// placeArgs returns a place as arguments of the script.
func placeArgs(p place) []any {
	if p == (place{}) {
		return []any{"", "", ""}
	}
	lane, id, _ := strings.Cut(p.ID, ":")
	return []any{p.At.UnixMilli(), lane, id}
}

// ShelfWords returns a text with a space at both ends of each word, so that a script
// finds only whole words. It returns an empty text for an empty list.
func ShelfWords[T ~string](list []T) string {
	text := ""
	for _, word := range list {
		text += " " + string(word)
	}
	if text != "" {
		text += " "
	}
	return text
}

func readEntry(a *conn.Reply) ShelfEntry {
	lane, id, _ := strings.Cut(a.Text(), ":")
	e := ShelfEntry{ID: dispatcher.DeliveryID{Lane: dispatcher.Lane(lane), Message: id}, Accepted: a.Time(), Status: dispatcher.Status(a.Text()), Time: a.Time()}
	e.WaitsFor, e.Head, e.Progress, e.Newest = a.Text(), a.Text(), a.Text(), a.Text()
	return e
}

// groups returns the shelves of lanes by their partitions, each once.
func groups(lanes []dispatcher.Lane, partitions int) map[int][]string {
	by := map[int][]string{}
	for _, lane := range slices.Compact(slices.Sorted(slices.Values(lanes))) {
		n := keys.Partition(string(lane), partitions)
		by[n] = append(by[n], string(lane))
	}
	return by
}

// join merges the parts into one order. If a part continues, the page is
// complete only up to the newest place at which such a part ended. After that
// place, this part may have more entries.
func (p *listing) join(parts []lanesPart, limit int) {
	var all []one
	var bound *place
	for i := range parts {
		all = append(all, parts[i].entries...)
		if parts[i].more && (bound == nil || newerPlace(parts[i].reached, *bound) < 0) {
			bound = &parts[i].reached
		}
	}
	slices.SortFunc(all, func(a, b one) int { return newerPlace(a.at, b.at) })
	for _, e := range all {
		if bound != nil && newerPlace(e.at, *bound) > 0 {
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

// ceil returns the first whole ms that is not before t.
func ceil(t time.Time) time.Time {
	return time.UnixMilli(t.Add(time.Millisecond - 1).UnixMilli()).UTC()
}

// millis returns ceil as an argument of a script. It returns an empty text for
// the zero time.
func millis(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(ceil(t).UnixMilli(), 10)
}

// wholeMost is the size of shelves that are read whole for a page in another
// order than by acceptance. A delivery takes 16 µs at most, so this is 16 ms of
// Redis.
const wholeMost = 1000

// timeOf returns the time of a delivery in an order.
func timeOf(order dispatcher.Order, d *dispatcher.Delivery) time.Time {
	switch order {
	case dispatcher.OrderEnded:
		return d.Ended
	case dispatcher.OrderDue:
		return d.Due
	}
	return d.Created
}

// Whole returns a page in the order of the ends or of the next attempts, from
// the shelves of a filter. It reports false if the shelves are too large. Then
// the index of the statuses has this order, with the same pages and places.
func (r *ShelfReader) Whole(ctx context.Context, f dispatcher.Filter, from *dispatcher.EndPlace) (page dispatcher.Page, ok bool, err error) {
	q, err := r.query(ctx, f, place{})
	if err != nil {
		return page, false, err
	}
	if ok = !q.older; !q.bySubject {
		ok, err = r.fits(ctx, q.shelves)
	}
	if !ok || err != nil {
		return page, false, err
	}
	f.Limit = input.PageSize(f.Limit, input.MaxPage)
	p := listing{more: true}
	q.f.Limit = math.MaxInt32
	for p.more {
		parts, err := r.read(ctx, &q, &p)
		if err != nil {
			return page, false, fmt.Errorf("list: %w", err)
		}
		p.join(parts, q.f.Limit)
	}
	behind := func(d dispatcher.Delivery) bool {
		return from == nil || orderOf(f.Order, placeIn(f.Order, &d), *from) > 0
	}
	list := slices.DeleteFunc(p.Deliveries, func(d dispatcher.Delivery) bool { return !inPart(f.Part, &d) || !behind(d) })
	slices.SortFunc(list, func(a, b dispatcher.Delivery) int {
		return orderOf(f.Order, placeIn(f.Order, &a), placeIn(f.Order, &b))
	})
	page.LookedAt, page.Deliveries = p.LookedAt, list
	if len(list) > f.Limit {
		page.Deliveries = list[:f.Limit]
		last := placeIn(f.Order, &list[f.Limit-1])
		page.Reached = &last
		page.Next, err = r.ListCursor(ctx, f, last)
	}
	return page, true, err
}

// fits reports whether shelves may be read whole.
func (r *ShelfReader) fits(ctx context.Context, shelves map[int][]string) (bool, error) {
	var calls []conn.Call
	var sizes []*redis.IntCmd
	for n, names := range shelves {
		if len(sizes)+len(names) > wholeMost {
			return false, nil
		}
		begin := len(sizes)
		sizes = append(sizes, make([]*redis.IntCmd, len(names))...)
		calls = append(calls, conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			for i, name := range names {
				sizes[begin+i] = p.ZCard(ctx, r.conn.Tag(n)+keys.Shelf+name)
			}
		}})
	}
	for _, a := range r.conn.Send(ctx, conn.Batch{Doing: "read sizes of shelves", Calls: calls}) {
		if a.Err != nil {
			return false, r.conn.InPartition(a.Partition, a.Err)
		}
	}
	all := int64(0)
	for _, size := range sizes {
		all += size.Val()
	}
	return all <= wholeMost, nil
}

// inPart reports whether a delivery is in a part of the list.
func inPart(part dispatcher.ListPart, d *dispatcher.Delivery) bool {
	return part == dispatcher.PartAll || d.Ended.IsZero() == (part == dispatcher.PartUnfinished)
}

// placeIn returns the place of a delivery in an order. An ended delivery that
// has not moved yet has no end time and comes before all others.
func placeIn(order dispatcher.Order, d *dispatcher.Delivery) place {
	at := timeOf(order, d)
	if order == dispatcher.OrderEnded && at.IsZero() {
		at = conn.FromMillis(conn.LatestMillis)
	}
	return place{At: at, ID: d.ID.String()}
}

// orderOf compares places in an order.
func orderOf(order dispatcher.Order, a, b place) int {
	if order == dispatcher.OrderDue {
		return a.Compare(b)
	}
	return b.Compare(a)
}

// Limits on the shelves that one call reads. A name has 35 characters at most.
// So one reply of Redis has 700 KiB at most, and takes 2 ms.
const (
	shelvesMost = 20_000 // of all tenants together
	leastEach   = 64     // of each tenant and partition, if the filter has many tenants
)

// ErrMore reports that tenants have more shelves than one call reads.
var ErrMore = errors.New("too many destinations to look through")

// ShelfLane returns the lane of a shelf. The shelf of a tenant in a queue has ~ and
// a hash of 16 characters after the lane. A lane has 16 characters at most, so it
// can't be mistaken for such a shelf.
func ShelfLane(shelf string) (lane string, ofTenant bool) {
	if at := len(shelf) - hashLength - 1; at > 0 && shelf[at] == '~' {
		return shelf[:at], true
	}
	return shelf, false
}

// hashLength is the length of the hash of a tenant.
const hashLength = 16

// Shelves returns the names of the shelves of tenants, by partition. Such a
// shelf has deliveries, which may have ended. A shelf is a lane. In a queue,
// which mixes tenants, it is the part of one tenant: <lane>~<hash of the
// tenant>. All partitions are read in one round trip, at most 20,000 names in
// all. If there are more, it returns the names that it read with ErrMore.
func (r *ShelfReader) Shelves(ctx context.Context, tenants []string) (map[int][]string, error) {
	tenants = slices.Compact(slices.Sorted(slices.Values(tenants)))
	tenants = slices.DeleteFunc(tenants, func(tenant string) bool { return tenant == "" })
	if len(tenants) == 0 {
		return nil, nil
	}
	partitions := r.conn.Partitions()
	most := max(shelvesMost/len(tenants)/max(partitions/4, 1), leastEach) // lanes are spread over the partitions, if not evenly
	read, calls := make([]*redis.StringSliceCmd, partitions*len(tenants)), make([]conn.Call, partitions)
	for n := range calls {
		calls[n] = conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
			for i, tenant := range tenants {
				read[n*len(tenants)+i] = p.ZRange(ctx, r.conn.Tag(n)+keys.Tenant+r.conn.TenantHash(tenant), 0, int64(most))
			}
		}}
	}
	for _, a := range r.conn.Send(ctx, conn.Batch{Doing: "read shelves", Calls: calls}) {
		if a.Err != nil {
			return nil, r.conn.InPartition(a.Partition, a.Err)
		}
	}
	shelves, all, more := map[int][]string{}, 0, false
	for i, names := range read {
		list := names.Val()
		fits := min(len(list), most, shelvesMost-all)
		more = more || fits < len(list)
		if fits > 0 {
			shelves[i/len(tenants)] = append(shelves[i/len(tenants)], list[:fits]...)
		}
		all += fits
	}
	if more {
		return shelves, fmt.Errorf("more than %d: %w", all, ErrMore)
	}
	return shelves, nil
}
