package engine

import (
	"github.com/hookladder/hookladder/dispatcher"
)

// A flush calls a script in each partition of its messages, and a call costs Redis as much as
// several messages. So a flush takes flushPart messages for each partition of the queue, at least
// flushLeast and at most flushMost, twice as many lanes, and flushBytes. Redis works 30 to 50 µs
// for each lane, and serves others between two calls. The store puts at most 64 messages into a
// call, so others wait for some 3 ms. A turn of one caller takes at most turnBytes and turnLanes.
// Callers get more turns while the flush has room.
const (
	flushPart  = 64
	flushLeast = 256
	flushMost  = 1024
	flushBytes = 4 << 20
	turnLanes  = 64
	turnBytes  = 256 << 10
)

// flushLeases is the number of permits that a flush takes at most, so that claims get some too.
const flushLeases = 256

// cost is the work that entries cause in the queue.
type cost struct{ lanes, bytes int }

func (c cost) plus(d cost) cost { return cost{c.lanes + d.lanes, c.bytes + d.bytes} }

// within reports whether c is at most d, in lanes and in bytes.
func (c cost) within(d cost) bool { return c.lanes <= d.lanes && c.bytes <= d.bytes }

var turnCost = cost{turnLanes, turnBytes}

// room is what one flush takes: messages, lanes and bytes.
type room struct {
	most int
	cost cost
}

// roomFor returns the room of a flush into a queue of some partitions.
func roomFor(partitions int) room {
	most := min(max(flushPart*partitions, flushLeast), flushMost)
	return room{most, cost{lanes: 2 * most, bytes: flushBytes}}
}

// filled reports whether n entries with the total cost fill a flush.
func (r room) filled(n int, all cost) bool {
	return n >= r.most || all.lanes >= r.cost.lanes || all.bytes >= r.cost.bytes
}

func costOf(e *dispatcher.Entry) cost { return cost{len(e.Lanes), len(e.Message.Body)} }

// heavy reports whether an entry alone exceeds a turn.
func heavy(e *dispatcher.Entry) bool { return !costOf(e).within(turnCost) }

// next returns the next entry of a ticket, or nil if all were taken.
func (t *ticket) next() *dispatcher.Entry {
	if t.sent == len(t.entries) {
		return nil
	}
	return &t.entries[t.sent]
}

// turn is a run of entries of one ticket.
type turn struct {
	of    *ticket
	first int
	n     int
}

// dealing is a flush under construction.
type dealing struct {
	room  room
	batch []dispatcher.Entry
	turns []turn
	spent cost
}

// fits reports whether the flush has room for an entry. An empty flush has room for any entry.
func (d *dealing) fits(e *dispatcher.Entry) bool {
	return len(d.batch) == 0 || len(d.batch) < d.room.most && d.spent.plus(costOf(e)).within(d.room.cost)
}

// take adds the next entry of a ticket to the flush.
func (d *dealing) take(t *ticket) {
	e := t.next()
	if n := len(d.turns); n == 0 || d.turns[n-1].of != t {
		d.turns = append(d.turns, turn{of: t, first: t.sent})
	}
	d.turns[len(d.turns)-1].n++
	d.batch = append(d.batch, *e)
	d.spent = d.spent.plus(costOf(e))
	t.sent++
	t.had = true
}

// deal chooses the entries of a flush. Each ticket gets a turn, and more turns while there is
// room. Heavy entries come last, in their order, so that a large fan-out delays no other
// caller. If there are heavy entries, deal always takes one.
func deal(open []*ticket, r room) ([]dispatcher.Entry, []turn) {
	n, _ := r.light(open)
	d := &dealing{room: r, batch: make([]dispatcher.Entry, 0, min(n+1, r.most)), turns: make([]turn, 0, len(open))}
	for d.round(open) {
	}
	large := false
	for _, t := range open {
		for e := t.next(); e != nil && heavy(e) && (!large || d.fits(e)); e = t.next() {
			d.take(t)
			large = true
		}
	}
	return d.batch, d.turns
}

// round gives each ticket a turn, and reports whether there may be another round.
func (d *dealing) round(open []*ticket) (more bool) {
	for _, t := range open {
		if e := t.next(); e == nil || heavy(e) {
			continue
		}
		t.credit.lanes = min(t.credit.lanes+turnLanes, turnLanes)
		t.credit.bytes = min(t.credit.bytes+turnBytes, turnBytes)
		for e := t.next(); e != nil && !heavy(e) && t.credit.lanes > 0 && t.credit.bytes > 0; e = t.next() {
			if !d.fits(e) {
				return false
			}
			spent := costOf(e)
			t.credit = cost{t.credit.lanes - spent.lanes, t.credit.bytes - spent.bytes}
			d.take(t)
		}
		more = true
	}
	return more
}

// lightOf counts the entries of a ticket that are not heavy, until they fill a flush.
func (r room) lightOf(t *ticket) (n int, all cost) {
	for i := t.sent; i < len(t.entries) && !r.filled(n, all); i++ {
		if e := &t.entries[i]; !heavy(e) {
			n, all = n+1, all.plus(costOf(e))
		}
	}
	return n, all
}

// light counts the entries of tickets that are not heavy.
func (r room) light(open []*ticket) (n int, all cost) {
	for _, t := range open {
		more, besides := r.lightOf(t)
		n, all = n+more, all.plus(besides)
	}
	return n, all
}

// enough reports whether the light entries of tickets fill a flush.
func (r room) enough(open []*ticket) bool { return r.filled(r.light(open)) }
