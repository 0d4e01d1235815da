package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// settleMost is how many outcomes one call records.
const settleMost = 256

// outcome is a settlement on its way to the queue.
type outcome struct {
	dispatcher.Settlement
	err        error  // why it was not recorded when that was last tried; nil: it was, or was not tried
	unanswered string // the instance that gave it before and got no answer; empty: none did

	unheld bool                     // it ends no lease of this instance
	done   func(dispatcher.Settled) // called with its result, and must not block; nil: it is not
}

// report returns the result of an outcome to its caller, once.
func (o *outcome) report(s dispatcher.Settled) {
	if done := o.done; done != nil {
		o.done = nil
		done(s)
	}
}

// settler records outcomes. Outcomes that come during a call share the next call. While the
// queue can't be reached they wait in memory, and claiming stops before they are too many. If
// only some of a batch can't be recorded, their lanes are stalled, and the others continue.
type settler struct {
	engine *Engine
	most   int // outcomes that may wait before claiming stops

	mu           sync.Mutex                       // guards the fields below
	waiting      []outcome                        // of each lane the oldest first
	stalled      map[dispatcher.Lane]*stalledLane // lanes of which outcomes were not recorded when that was last tried
	stalledCount int                              // outcomes in them
	given        int                              // outcomes that are given to the queue, without an answer yet
	over         bool                             // nothing more is recorded

	wake wait.Signal

	batch []dispatcher.Settlement // of the call under way, which only Run makes, and leave after it
}

func newSettler(e *Engine, most int) *settler {
	return &settler{engine: e, most: most, stalled: map[dispatcher.Lane]*stalledLane{}, wake: wait.NewSignal()}
}

// put adds outcomes.
func (s *settler) put(settlements ...dispatcher.Settlement) {
	if len(settlements) == 0 {
		return
	}
	s.mu.Lock()
	for i := range settlements {
		s.add(outcome{Settlement: settlements[i]})
	}
	s.mu.Unlock()
	s.wake.Set()
}

// putAndReport adds an outcome, and calls done with its result. held: it ends a lease of this
// instance.
func (s *settler) putAndReport(o dispatcher.Settlement, held bool, done func(dispatcher.Settled)) {
	s.mu.Lock()
	over := s.over
	if !over {
		s.add(outcome{Settlement: o, done: done, unheld: !held})
	}
	s.mu.Unlock()
	if over {
		done(dispatcher.Settled{Err: errOver})
		return
	}
	s.wake.Set()
}

// add adds one outcome. mu is held.
func (s *settler) add(o outcome) {
	if r := s.stalled[o.ID.Lane]; r.waits() {
		r.list = append(r.list, o)
		s.stalledCount++
	} else {
		s.waiting = append(s.waiting, o)
	}
}

// errOver is of an outcome that came too late to be recorded.
var errOver = fmt.Errorf("this instance has stopped: %w", dispatcher.ErrUnavailable)

// ended reports that nothing more is recorded.
func (s *settler) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// behind reports whether too much waits for more to be leased.
func (s *settler) behind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)+s.stalledCount+s.given > s.most
}

// Run settles until ctx ends and nothing waits. After the end of ctx it continues for
// outage.CallWithin only; outcomes that are left then stay unrecorded.
func (s *settler) Run(ctx context.Context) error {
	calls, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(outage.CallWithin, giveUp) })()
	timer := newIdleTimer()
	defer timer.Stop()
	for failures := 0; calls.Err() == nil; {
		ended := ctx.Err() != nil // read before taking: outcomes that were put before the end are taken
		batch, wait := s.take(ended)
		if len(batch) == 0 {
			if ended {
				return nil
			}
			if wait >= 0 {
				timer.Reset(wait)
			}
			select {
			case <-s.wake:
			case <-timer.C:
			case <-ctx.Done():
			}
			continue
		}
		left, err := s.settle(calls, batch)
		switch {
		case err == nil:
			failures = 0
		case len(left) < len(batch) || outage.Whole(err) == nil && !ended:
			failures = 0 // what could be recorded was
		default:
			outage.Pause(calls, failures+1)
			failures++
		}
	}
	return nil
}

// take answers the next batch, or how long to wait for one; wait < 0: until an
// outcome comes. With all it takes the outcomes of stalled lanes too.
func (s *settler) take(all bool) (batch []outcome, wait time.Duration) {
	now := time.Now()
	wait = -1
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.stalled {
		switch {
		case !r.waits():
		case all || !r.until.After(now):
			s.waiting = append(s.waiting, r.list...) // none of that lane came in between
			s.stalledCount -= len(r.list)
			r.list, r.until = nil, time.Time{}
		default:
			wait = sooner(wait, r.until.Sub(now))
		}
	}
	n := 0
	for n < min(len(s.waiting), settleMost) && s.stalled[s.waiting[n].ID.Lane].together() {
		n++
	}
	if n == 0 && len(s.waiting) > 0 {
		n = 1
	}
	s.given = n
	batch = append(make([]outcome, 0, n), s.waiting[:n]...)
	s.waiting = append(s.waiting[:0], s.waiting[n:]...)
	clear(s.waiting[len(s.waiting):min(len(s.waiting)+n, cap(s.waiting))])
	return batch, wait
}

// settle records one batch. It returns the outcomes that were not recorded, and stalls their
// lanes. err is the reason, of all together.
func (s *settler) settle(ctx context.Context, batch []outcome) (left []outcome, err error) {
	err = s.record(ctx, batch)
	if o := &batch[0]; len(batch) == 1 && isRefused(o.err) && s.isSingle(o.ID.Lane) {
		err = s.insist(ctx, o)
	}
	for i := range batch {
		if batch[i].err != nil {
			left = append(left, batch[i])
		}
	}
	s.stall(batch, left)
	return left, err
}

// isRefused reports whether it was refused, and would be another time.
func isRefused(err error) bool { return err != nil && outage.Any(err, outage.Refuses) }

// record makes one call of the queue, and marks the outcomes that were not recorded.
func (s *settler) record(ctx context.Context, batch []outcome) error {
	e := s.engine
	call, cancel := outage.Within(ctx)
	defer cancel()
	for i := range batch {
		s.batch = append(s.batch, batch[i].Settlement)
	}
	by := e.name()
	settled := e.deliveries.Settle(call, by, s.batch)
	clear(s.batch) // excerpts are large
	s.batch = s.batch[:0]
	for i := range batch {
		o := &batch[i]
		if o.err = settled[i].Err; o.err == nil && !o.unheld {
			e.leases.release(o.ID)
		}
	}
	s.engine.Stirred()
	err := failureOf(settled)
	if ctx.Err() == nil && (err == nil || outage.Any(err, outage.Passes)) {
		e.outages.Report("settle", err)
	}
	for i := range batch {
		o := &batch[i]
		e.tally.settled(&o.Settlement, &settled[i])
		switch {
		case settled[i].Died != nil:
			e.died(*settled[i].Died, &o.Settlement)
		case settled[i].Result == dispatcher.SettledBefore && o.unanswered == by: // the answer with its death was lost
			e.died(dispatcher.Death{ID: o.ID, Reason: o.Reason, Attempts: o.Attempt.Number}, &o.Settlement)
		}
		if since := settled[i].GivenUp; !since.IsZero() {
			e.endpoints.GiveUp(o.ID.Lane, o.Endpoint, since)
		}
		if errors.Is(o.err, dispatcher.ErrUnavailable) {
			o.unanswered = by
		}
		if o.err == nil {
			o.report(settled[i])
		}
	}
	e.settled.Set()
	return err
}

// lastStatus is the last status from the receiver of a lane, in the outcomes that are being
// recorded: 0 if it did not answer. Only the queue's events of these outcomes may call it,
// because they come on the goroutine of the call.
func (s *settler) lastStatus(lane dispatcher.Lane) (status int) {
	for i := range s.batch {
		if o := &s.batch[i]; o.ID.Lane == lane && o.Attempt.Number > 0 {
			status = o.Attempt.Status
		}
	}
	return status
}

// failureOf is why settlements were not recorded, of all together; nil: all were.
func failureOf(settled []dispatcher.Settled) error {
	var errs []error
	for i := range settled {
		if err := settled[i].Err; err != nil {
			errs = append(errs, err)
		}
	}
	return outage.Join(errs...)
}
