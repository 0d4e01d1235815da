package engine

import (
	"github.com/hookladder/hookladder/dispatcher"
)

// A flush takes at most flushMost messages, flushBytes and flushLanes. Redis works 30 to 50 µs
// for each lane, so other calls wait for at most some 25 ms. A turn of one caller takes at
// most turnBytes and turnLanes. Callers get more turns while the flush has room.
const (
	flushMost  = 256
	flushLanes = 512
	flushBytes = 4 << 20
	turnLanes  = 64
	turnBytes  = 256 << 10
)

// cost is the work that entries cause in the queue.
type cost struct{ lanes, bytes int }

func (c cost) plus(d cost) cost { return cost{c.lanes + d.lanes, c.bytes + d.bytes} }

// within reports whether c is at most d, in lanes and in bytes.
func (c cost) within(d cost) bool { return c.lanes <= d.lanes && c.bytes <= d.bytes }

var (
	flushCost = cost{flushLanes, flushBytes}
	turnCost  = cost{turnLanes, turnBytes}
)

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
	batch []dispatcher.Entry
	turns []turn
	spent cost
}

// fits reports whether the flush has room for an entry. An empty flush has room for any entry.
func (d *dealing) fits(e *dispatcher.Entry) bool {
	return len(d.batch) == 0 || len(d.batch) < flushMost && d.spent.plus(costOf(e)).within(flushCost)
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
func deal(open []*ticket) ([]dispatcher.Entry, []turn) {
	n, _ := lightOf(open)
	d := &dealing{batch: make([]dispatcher.Entry, 0, min(n+1, flushMost)), turns: make([]turn, 0, len(open))}
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

// light counts the entries of a ticket that are not heavy, until they fill a flush.
func (t *ticket) light() (n int, all cost) {
	for i := t.sent; i < len(t.entries) && !full(n, all); i++ {
		if e := &t.entries[i]; !heavy(e) {
			n, all = n+1, all.plus(costOf(e))
		}
	}
	return n, all
}

// full reports whether n entries with the total cost fill a flush.
func full(n int, all cost) bool {
	return n >= flushMost || all.lanes >= flushLanes || all.bytes >= flushBytes
}

// lightOf counts the entries of tickets that are not heavy.
func lightOf(open []*ticket) (n int, all cost) {
	for _, t := range open {
		more, besides := t.light()
		n, all = n+more, all.plus(besides)
	}
	return n, all
}

// enough reports whether the light entries of tickets fill a flush.
func enough(open []*ticket) bool { return full(lightOf(open)) }
