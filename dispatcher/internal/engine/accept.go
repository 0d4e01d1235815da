package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// acceptQueue is the number of publishes that may wait for a flush. The next one blocks.
const (
	acceptQueue = 1024
	flushWithin = 5 * time.Second // timeout of one call
)

// accepter combines concurrent publishes into one call of the queue. A publish does not wait
// for others, but publishes that arrive during a call share the next call.
//
// If more is waiting than one call takes, a second call runs beside the first. The queue then
// works on one call while the other is written. In batches of 100 messages this raised the
// throughput by an eighth. With less load a second call would only make the calls smaller and
// more costly.
type accepter struct {
	engine  *Engine
	evictor *evictor
	room    room // of a flush
	tickets chan *ticket
	more    wait.Signal // more is waiting than one call takes
}

// ticket is a Publish in progress.
type ticket struct {
	entries []dispatcher.Entry
	out     []dispatcher.ScheduleResult
	sent    int           // number of entries passed to the queue
	had     bool          // it had a turn in this flush
	credit  cost          // size of its next turn, less the excess of the last one
	traced  bool          // its calls are recorded in a trace
	calls   []storeCall   // if it is traced
	done    chan struct{} // closed when out is complete
}

func newAccepter(e *Engine) *accepter {
	return &accepter{
		engine: e, evictor: newEvictor(e), room: roomFor(e.deliveries.Partitions()),
		tickets: make(chan *ticket, acceptQueue), more: wait.NewSignal(),
	}
}

// accept stores entries and returns the result of each. If ctx ends first, it is unknown
// whether they are stored.
func (a *accepter) accept(ctx context.Context, entries []dispatcher.Entry) ([]dispatcher.ScheduleResult, error) {
	t := &ticket{entries: entries, out: make([]dispatcher.ScheduleResult, len(entries)), done: make(chan struct{})}
	tracer := a.engine.options.Tracer
	t.traced = tracer != nil && tracer.Recorded(ctx)
	select {
	case a.tickets <- t:
	case <-a.engine.stopped:
		return nil, fmt.Errorf("accept: shutting down: %w", dispatcher.ErrUnavailable)
	case <-ctx.Done():
		return nil, fmt.Errorf("accept: %w: %w", dispatcher.ErrUnavailable, ctx.Err())
	}
	var err error
	select {
	case <-t.done:
	case <-a.engine.stopped:
		err = fmt.Errorf("accept: shutting down: %w", dispatcher.ErrUnavailable)
	case <-ctx.Done():
		err = fmt.Errorf("accept: %w: %w", dispatcher.ErrUnavailable, ctx.Err())
	}
	select {
	case <-t.done: // a result counts, even if the shutdown begins at the same moment
		t.trace(ctx, tracer)
		return t.out, nil
	default:
		return nil, err
	}
}

// storeCall is a call of the queue that had entries of a traced ticket.
type storeCall struct {
	began, ended time.Time
	entries      int    // of all tickets
	failed       string // class of the error; empty: none
}

// trace records the calls of a ticket as spans.
func (t *ticket) trace(ctx context.Context, tracer trace.Tracer) {
	for _, c := range t.calls {
		_, span := tracer.Begin(ctx, trace.Start{
			Name: "schedule", Kind: trace.Client, At: c.began,
			Attrs: []slog.Attr{trace.Redis(), slog.String(trace.DatabaseCall, "schedule"), slog.Int(trace.DatabaseBatch, c.entries)},
		})
		span.End(c.failed, c.ended)
	}
}

// noteCall adds a call to the traced tickets among those that had a turn in it.
func noteCall(turns []turn, began time.Time, out []dispatcher.ScheduleResult) {
	call := storeCall{began: began, ended: time.Now(), entries: len(out)}
	switch err := firstError(out, func(s *dispatcher.ScheduleResult) bool { return s.Err != nil }); {
	case err == nil:
	case errors.Is(err, dispatcher.ErrFull):
		call.failed = "full"
	default:
		call.failed = "unavailable"
	}
	for i := range turns {
		t := turns[i].of
		if t.traced && (len(t.calls) == 0 || t.calls[len(t.calls)-1] != call) { // it may have several turns in a call
			t.calls = append(t.calls, call)
		}
	}
}

// Run flushes until ctx ends. It then flushes the publishes that are still waiting, but only
// for flushWithin, because a thousand callers may wait for a queue that hangs.
func (a *accepter) Run(ctx context.Context) error {
	calls, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushWithin, giveUp) })()
	var beside sync.WaitGroup
	beside.Go(func() { a.help(calls) })
	defer beside.Wait()
	defer close(a.more)
	var open []*ticket
	for {
		if len(open) == 0 {
			select {
			case t := <-a.tickets:
				open = append(open, t)
			case <-ctx.Done():
				select {
				case t := <-a.tickets:
					open = append(open, t)
				default:
					return nil
				}
			}
		}
		open = a.gather(open)
		if a.room.enough(open) && len(a.tickets) > 0 {
			a.more.Set()
		}
		left, begun := a.flush(calls, open)
		// A ticket that had a turn goes behind all tickets that are waiting now.
		open = append(a.gather(left), begun...)
	}
}

// help flushes beside Run while more is waiting than one call takes. A ticket stays with the
// goroutine that took it, to keep the order of its entries.
func (a *accepter) help(ctx context.Context) {
	for range a.more {
		for open := a.gather(nil); len(open) > 0; {
			full := a.room.enough(open)
			left, begun := a.flush(ctx, open)
			if full {
				left = a.gather(left)
			}
			open = append(left, begun...)
		}
	}
}

// gather adds waiting tickets until they fill a flush.
func (a *accepter) gather(open []*ticket) []*ticket {
	n, all := a.room.light(open)
	for !a.room.filled(n, all) && len(open) < acceptQueue {
		select {
		case t := <-a.tickets:
			open = append(open, t)
			more, besides := a.room.lightOf(t)
			n, all = n+more, all.plus(besides)
		default:
			return open
		}
	}
	return open
}

// flush passes the next entries to the queue and reports the results to their tickets. It
// returns the incomplete tickets: left had no turn, begun had one. It takes permits first,
// because the same call leases deliveries that are due at once.
func (a *accepter) flush(ctx context.Context, open []*ticket) (left, begun []*ticket) {
	e := a.engine
	e.progress.accept.begin()
	defer e.progress.accept.end()
	batch, turns := deal(open, a.room)
	lease := 0
	name, may := e.mayLease()
	if may {
		lease = e.permits.try(min(len(batch), flushLeases))
	}
	free := e.permits.free() + lease
	traced := slices.ContainsFunc(open, func(t *ticket) bool { return t.traced })
	var began time.Time
	if traced {
		began = time.Now()
	}

	out, leased := a.schedule(ctx, name, free, lease, batch)
	if full := fullOf(out); len(full) > 0 && a.evictor.makeRoom(ctx, len(full)) {
		again := make([]dispatcher.Entry, len(full))
		for i, at := range full {
			again[i] = batch[at]
		}
		answers, more := a.schedule(ctx, name, free-leased, lease-leased, again)
		for i, at := range full {
			out[at] = answers[i]
		}
		leased += more
	}
	e.permits.release(lease - leased)
	e.fullLog.Report("schedule", firstError(out, isFull))
	if traced {
		noteCall(turns, began, out)
	}
	return answerTickets(open, turns, out)
}

// schedule makes one call of the queue and begins the deliveries that it leased. It returns
// the result of each entry and the number of leased deliveries.
func (a *accepter) schedule(ctx context.Context, by string, free, lease int, batch []dispatcher.Entry) (out []dispatcher.ScheduleResult, leased int) {
	e := a.engine
	call, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	under := e.leases.enter()
	out, err := e.deliveries.Schedule(call, by, free, lease, batch)
	claimed := leasedOf(batch, out)
	e.leased(under, claimed)
	out = spreadError(out, len(batch), err)
	// Report one error for all entries, because they fail for the same reason.
	failed := firstError(out, func(s *dispatcher.ScheduleResult) bool { return s.Err != nil && !isFull(s) })
	if lease > 0 && firstError(out, isUnknown) != nil {
		e.unsure() // the reconciler finds leases whose response was lost
	}
	e.outages.Report("schedule", failed)
	if outage.Whole(firstError(out, isUnknown)) != nil {
		e.pollSoon() // the entry may be stored, and the response with its due time lost
	}
	e.Stirred()
	e.begin(ctx, claimed)
	return out, len(claimed)
}

func isFull(s *dispatcher.ScheduleResult) bool { return errors.Is(s.Err, dispatcher.ErrFull) }

// isUnknown reports whether it is unknown if an entry is stored. An entry with a result is
// stored, even if an error says that it may not be durable.
func isUnknown(s *dispatcher.ScheduleResult) bool { return s.Err != nil && s.Result == 0 && !isFull(s) }

// firstError returns the error of the first result that satisfies is, or nil.
func firstError(out []dispatcher.ScheduleResult, is func(*dispatcher.ScheduleResult) bool) error {
	for i := range out {
		if is(&out[i]) {
			return out[i].Err
		}
	}
	return nil
}

// spreadError sets the error of a whole call in each of its n entries that has no result.
func spreadError(out []dispatcher.ScheduleResult, n int, err error) []dispatcher.ScheduleResult {
	if err == nil {
		return out
	}
	if out == nil {
		out = make([]dispatcher.ScheduleResult, n)
	}
	for i := range out {
		if out[i].Result == 0 && out[i].Err == nil {
			out[i].Err = err
		}
	}
	return out
}

// fullOf returns the indexes of the entries that the queue had no memory for.
func fullOf(out []dispatcher.ScheduleResult) (at []int) {
	for i := range out {
		if isFull(&out[i]) {
			at = append(at, i)
		}
	}
	return at
}

// leasedOf returns a Claimed for each delivery that a publish leased. Their messages are
// known, so nothing has to be read.
func leasedOf(batch []dispatcher.Entry, out []dispatcher.ScheduleResult) []dispatcher.Claimed {
	n := 0
	for i := range out {
		for k := range out[i].Placed {
			if out[i].Placed[k].Status == dispatcher.StatusInFlight {
				n++
			}
		}
	}
	if n == 0 {
		return nil
	}
	claimed := make([]dispatcher.Claimed, 0, n)
	for i := range out {
		m := batch[i].Message
		for k := range out[i].Placed {
			p := &out[i].Placed[k]
			if p.Status != dispatcher.StatusInFlight {
				continue
			}
			if len(m.Body) > dispatcher.ApartAbove && m.Apart == nil {
				apart := *m
				apart.Apart = &dispatcher.Apart{Size: len(m.Body), Digest: batch[i].Digest}
				m = &apart
			}
			claimed = append(claimed, dispatcher.Claimed{
				ID:      dispatcher.DeliveryID{Lane: p.Lane, Message: m.ID},
				Message: m, Due: p.Due, Attempt: 1, Rung: 1, First: true, Version: p.Version, Leased: p.At, NewLane: p.NewLane,
			})
		}
	}
	return claimed
}

// answerTickets copies the results to the tickets and completes those that have all. It
// returns the others: left had no turn, begun had one.
func answerTickets(open []*ticket, turns []turn, out []dispatcher.ScheduleResult) (left, begun []*ticket) {
	at := 0
	for _, t := range turns {
		copy(t.of.out[t.first:], out[at:at+t.n])
		at += t.n
	}
	for _, t := range open {
		switch {
		case t.sent == len(t.entries):
			close(t.done)
		case t.had:
			t.had = false
			begun = append(begun, t)
		default:
			left = append(left, t)
		}
	}
	return left, begun
}

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
