package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounds of accepting. A flush takes what is waiting, at most flushMost
// messages, so that one caller's batch of 1,000 does not make the others wait
// for all of it; acceptQueue calls may wait before callers feel it.
const (
	flushMost   = 256
	acceptQueue = 1024
	flushWithin = 5 * time.Second // then the queue is taken to be unreachable
)

// accepter coalesces concurrent publishes into one call of the queue: nothing
// lingers, but what comes while a call is under way goes together in the next.
type accepter struct {
	engine  *engine
	tickets chan *ticket
}

// ticket is one Publish on its way.
type ticket struct {
	entries []Entry
	out     []Scheduled
	sent    int           // entries given to the queue
	done    chan struct{} // closed when out is complete
}

func newAccepter(e *engine) *accepter {
	return &accepter{engine: e, tickets: make(chan *ticket, acceptQueue)}
}

// accept stores entries and answers what became of each. When ctx ends before,
// whether they are stored is unknown.
func (a *accepter) accept(ctx context.Context, entries []Entry) ([]Scheduled, error) {
	t := &ticket{entries: entries, out: make([]Scheduled, len(entries)), done: make(chan struct{})}
	select {
	case a.tickets <- t:
	case <-a.engine.stopped:
		return nil, fmt.Errorf("accept: shutting down: %w", ErrUnavailable)
	case <-ctx.Done():
		return nil, fmt.Errorf("accept: %w: %w", ErrUnavailable, ctx.Err())
	}
	select {
	case <-t.done:
		return t.out, nil
	case <-a.engine.stopped:
		return nil, fmt.Errorf("accept: shutting down: %w", ErrUnavailable)
	case <-ctx.Done():
		return nil, fmt.Errorf("accept: %w: %w", ErrUnavailable, ctx.Err())
	}
}

// Run flushes until ctx ends; what waits then is flushed too.
func (a *accepter) Run(ctx context.Context) error {
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
		open = a.flush(ctx, a.gather(open))
	}
}

// gather adds the calls that are waiting, up to a flush.
func (a *accepter) gather(open []*ticket) []*ticket {
	n := 0
	for _, t := range open {
		n += len(t.entries) - t.sent
	}
	for n < flushMost {
		select {
		case t := <-a.tickets:
			open = append(open, t)
			n += len(t.entries)
		default:
			return open
		}
	}
	return open
}

// flush gives the next entries to the queue and answers the tickets that are
// not complete. Permits are taken first: what is due at once and finds one free
// is leased by the same call.
func (a *accepter) flush(ctx context.Context, open []*ticket) []*ticket {
	e := a.engine
	var batch []Entry
	for _, t := range open {
		take := min(flushMost-len(batch), len(t.entries)-t.sent)
		batch = append(batch, t.entries[t.sent:t.sent+take]...)
	}
	lease := 0
	if ctx.Err() == nil && e.mayLease() {
		lease = e.permits.try(len(batch))
	}
	free := e.permits.free() + lease

	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
	e.leasing.RLock()
	out, hints, err := e.queue.Schedule(call, e.name(), free, lease, batch)
	cancel()
	claimed := leasedOf(batch, out)
	e.hold(claimed)
	e.leasing.RUnlock()
	if err == nil {
		for i := range out {
			err = errors.Join(err, out[i].Err)
		}
	}
	if err != nil && lease > 0 {
		e.unsure.Store(true) // what it leased without our knowing is found by reconciling
	}
	e.trouble.note("schedule", err)
	e.permits.release(lease - len(claimed))
	e.gate.put(claimed...)
	e.view.note(hints...)
	return answerTickets(open, out, err)
}

// leasedOf makes claims of what was leased directly: it needs no reading.
func leasedOf(batch []Entry, out []Scheduled) []Claimed {
	var claimed []Claimed
	for i, s := range out {
		for _, lane := range s.Leased {
			claimed = append(claimed, Claimed{
				ID:      DeliveryID{Lane: lane, Message: batch[i].Message.ID},
				Message: batch[i].Message, Due: s.Due, Attempt: 1, Rung: 1, First: true,
			})
		}
	}
	return claimed
}

// answerTickets hands out the results in order and answers the tickets that
// still have entries to give.
func answerTickets(open []*ticket, out []Scheduled, err error) []*ticket {
	var left []*ticket
	at := 0
	budget := flushMost
	for _, t := range open {
		take := min(budget, len(t.entries)-t.sent)
		budget -= take
		for i := range take {
			if out != nil {
				t.out[t.sent+i] = out[at]
			} else {
				t.out[t.sent+i].Err = err
			}
			at++
		}
		if t.sent += take; t.sent == len(t.entries) {
			close(t.done)
		} else {
			left = append(left, t)
		}
	}
	return left
}
