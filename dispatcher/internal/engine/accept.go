package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// Bounds of accepting; acceptQueue calls may wait before callers feel it.
const (
	acceptQueue = 1024
	flushWithin = 5 * time.Second // then the queue is taken to be unreachable
)

// accepter coalesces concurrent publishes into one call of the queue. Nothing
// lingers, but what comes while a call is under way goes together in the next.
// Only where that is more than one call takes, a second call is made meanwhile: the
// queue works on one while the other is written. Measured in batches of 100, that is
// an eighth more messages a second. At other times two calls would be smaller, and
// cost more.
type accepter struct {
	engine  *Engine
	evictor *evictor
	tickets chan *ticket
	more    chan struct{} // 1 deep: more waits than a call takes
}

// ticket is one Publish on its way.
type ticket struct {
	entries []dispatcher.Entry
	out     []dispatcher.ScheduleResult
	sent    int           // entries given to the queue
	had     bool          // a turn in this flush
	credit  cost          // of its next turn, less what the last one took too much
	done    chan struct{} // closed when out is complete
}

func newAccepter(e *Engine) *accepter {
	return &accepter{engine: e, evictor: newEvictor(e), tickets: make(chan *ticket, acceptQueue), more: make(chan struct{}, 1)}
}

// accept stores entries and answers what became of each. When ctx ends before,
// whether they are stored is unknown.
func (a *accepter) accept(ctx context.Context, entries []dispatcher.Entry) ([]dispatcher.ScheduleResult, error) {
	t := &ticket{entries: entries, out: make([]dispatcher.ScheduleResult, len(entries)), done: make(chan struct{})}
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
	case <-t.done: // an answer counts, whatever else happened at that moment
		return t.out, nil
	default:
		return nil, err
	}
}

// Run flushes until ctx ends; what waits then is flushed too, or refused once
// that took flushWithin: a thousand callers may wait for a queue that hangs.
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
		if enough(open) && len(a.tickets) > 0 {
			select {
			case a.more <- struct{}{}:
			default: // there is one already
			}
		}
		left, begun := a.flush(calls, open)
		// A large one that had its turn goes behind all that wait by now, and is not overtaken by
		// later ones.
		open = append(a.gather(left), begun...)
	}
}

// help flushes beside Run while more waits than one call takes. A ticket stays
// with the loop that took it, so that its entries go in their order.
func (a *accepter) help(ctx context.Context) {
	for range a.more {
		for open := a.gather(nil); len(open) > 0; {
			full := enough(open)
			left, begun := a.flush(ctx, open)
			if full {
				left = a.gather(left)
			}
			open = append(left, begun...)
		}
	}
}

// gather adds the calls that are waiting, up to a flush.
func (a *accepter) gather(open []*ticket) []*ticket {
	n, all := lightOf(open)
	for !full(n, all) && len(open) < acceptQueue {
		select {
		case t := <-a.tickets:
			open = append(open, t)
			more, besides := t.light()
			n, all = n+more, all.plus(besides)
		default:
			return open
		}
	}
	return open
}

// flush gives the next entries to the queue and answers the tickets that are
// not complete: those that had no turn, and those that had one. Permits are
// taken first: what is due at once and finds one free is leased by the same
// call, if leases may be taken.
func (a *accepter) flush(ctx context.Context, open []*ticket) (left, begun []*ticket) {
	e := a.engine
	batch, turns := deal(open)
	lease := 0
	name, may := e.mayLease()
	if may {
		lease = e.permits.try(len(batch))
	}
	free := e.permits.free() + lease

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
	return answerTickets(open, turns, out)
}

// schedule makes one call of the queue. It answers what became of each entry,
// and how many deliveries were leased by it; those are on their way.
func (a *accepter) schedule(ctx context.Context, by string, free, lease int, batch []dispatcher.Entry) (out []dispatcher.ScheduleResult, leased int) {
	e := a.engine
	call, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	under := e.leases.enter()
	out, err := e.queue.Schedule(call, by, free, lease, batch)
	claimed := leasedOf(batch, out)
	e.leased(under, claimed)
	out = spreadError(out, len(batch), err)
	// One error stands for all: a store that is lost fails each in the same way.
	failed := firstError(out, func(s *dispatcher.ScheduleResult) bool { return s.Err != nil && !isFull(s) })
	if lease > 0 && firstError(out, isUnknown) != nil {
		e.unsure() // leases of a lost answer are found by reconciling
	}
	e.outages.Report("schedule", failed)
	if _, rest := outage.Split(firstError(out, isUnknown)); rest != nil {
		e.pollSoon() // it may be stored, and the answer with its due time was lost
	}
	e.begin(ctx, claimed)
	return out, len(claimed)
}

func isFull(s *dispatcher.ScheduleResult) bool { return errors.Is(s.Err, dispatcher.ErrFull) }

// isUnknown reports whether an entry may be stored or not. With a result it is
// stored, if maybe not as durably as it should be.
func isUnknown(s *dispatcher.ScheduleResult) bool { return s.Err != nil && s.Result == 0 && !isFull(s) }

// firstError is the error of the first that is as asked for; nil: none is.
func firstError(out []dispatcher.ScheduleResult, is func(*dispatcher.ScheduleResult) bool) error {
	for i := range out {
		if is(&out[i]) {
			return out[i].Err
		}
	}
	return nil
}

// spreadError gives an error that concerns a whole call to each of its n
// entries that has no answer of its own.
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

// fullOf are the entries that the queue had no memory for.
func fullOf(out []dispatcher.ScheduleResult) (at []int) {
	for i := range out {
		if isFull(&out[i]) {
			at = append(at, i)
		}
	}
	return at
}

// leasedOf makes claims of what was leased directly: its messages are here already.
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
				Message: m, Due: p.Due, Attempt: 1, Rung: 1, First: true, Version: p.Version, Leased: p.At,
			})
		}
	}
	return claimed
}

// answerTickets hands out the results of turns in order and answers the tickets
// that still have entries to give: those that had no turn, and those that had one.
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
