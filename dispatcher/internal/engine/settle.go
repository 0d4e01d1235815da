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
)

// settleMost is the number of outcomes that one call records.
const settleMost = 256

// outcome is a settlement that is not recorded yet.
type outcome struct {
	dispatcher.Settlement
	err        error  // error of the last try to record it; nil: it was recorded, or not tried
	unanswered string // name of this instance in an earlier call without a response; empty: there was none

	unleased bool                     // this instance has no lease that it ends
	done     func(dispatcher.Settled) // called with its result; must not block; may be nil
}

// report passes the result of an outcome to its caller, once.
func (o *outcome) report(s dispatcher.Settled) {
	if done := o.done; done != nil {
		o.done = nil
		done(s)
	}
}

// settler records outcomes. Outcomes that arrive during a call share the next call. While the
// queue is unreachable they wait in memory, and claiming stops before they are too many. If
// only some outcomes of a batch can't be recorded, their lanes are stalled, and the others
// continue.
type settler struct {
	engine *Engine
	most   int // outcomes that may wait before claiming stops

	mu           sync.Mutex                       // guards the fields below
	waiting      []outcome                        // oldest first in each lane
	stalled      map[dispatcher.Lane]*stalledLane // lanes with outcomes that the last try did not record
	stalledCount int                              // number of outcomes in stalled lanes
	given        int                              // number of outcomes in the running call
	over         bool                             // no more outcomes are recorded

	wake wait.Signal

	batch []dispatcher.Settlement // batch of the running call; only Run calls, and leave after it
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

// putAndReport adds an outcome, and calls done with its result. leased says that the outcome
// ends a lease of this instance.
func (s *settler) putAndReport(o dispatcher.Settlement, leased bool, done func(dispatcher.Settled)) {
	s.mu.Lock()
	over := s.over
	if !over {
		s.add(outcome{Settlement: o, done: done, unleased: !leased})
	}
	s.mu.Unlock()
	if over {
		done(dispatcher.Settled{Err: errOver})
		return
	}
	s.wake.Set()
}

// add adds one outcome. mu is locked.
func (s *settler) add(o outcome) {
	if r := s.stalled[o.ID.Lane]; r.waits() {
		r.list = append(r.list, o)
		s.stalledCount++
	} else {
		s.waiting = append(s.waiting, o)
	}
}

// errOver is the error for an outcome that came too late to be recorded.
var errOver = fmt.Errorf("this instance has stopped: %w", dispatcher.ErrUnavailable)

// ended reports whether no more outcomes are recorded.
func (s *settler) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// behind reports whether too many outcomes are waiting to lease more.
func (s *settler) behind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)+s.stalledCount+s.given > s.most
}

// Run settles until ctx ends and no outcome waits. After the end of ctx it continues only for
// outage.CallWithin. The remaining outcomes stay unrecorded.
func (s *settler) Run(ctx context.Context) error {
	calls, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(outage.CallWithin, giveUp) })()
	timer := newIdleTimer()
	defer timer.Stop()
	for failures := 0; calls.Err() == nil; {
		ended := ctx.Err() != nil // read this before take, so that outcomes put before the end are taken
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
			failures = 0 // all that could be recorded was recorded
		default:
			outage.Pause(calls, failures+1)
			failures++
		}
	}
	return nil
}

// take returns the next batch, or how long to wait for one. A negative wait lasts until an
// outcome arrives. With all it takes the outcomes of stalled lanes too.
func (s *settler) take(all bool) (batch []outcome, wait time.Duration) {
	now := time.Now()
	wait = -1
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.stalled {
		switch {
		case !r.waits():
		case all || !r.until.After(now):
			s.waiting = append(s.waiting, r.list...) // no later outcome of that lane is in waiting
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
// lanes. err joins the reasons.
func (s *settler) settle(ctx context.Context, batch []outcome) (left []outcome, err error) {
	s.engine.progress.settle.begin()
	defer s.engine.progress.settle.end()
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

// isRefused reports whether the queue refused an outcome and would refuse it again.
func isRefused(err error) bool { return err != nil && outage.Any(err, outage.Refuses) }

// record makes one call of the queue, and sets err of the outcomes that were not recorded.
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
		if o.err = settled[i].Err; o.err == nil && !o.unleased {
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
		case settled[i].Result == dispatcher.SettledBefore && o.unanswered == by: // the response with its death was lost
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

// lastStatus returns the last status from the receiver of a lane in the outcomes that are
// being recorded, or 0 if it did not respond. Only the queue's events for these outcomes may
// call it, because they come on the goroutine of the call.
func (s *settler) lastStatus(lane dispatcher.Lane) (status int) {
	for i := range s.batch {
		if o := &s.batch[i]; o.ID.Lane == lane && o.Attempt.Number > 0 {
			status = o.Attempt.Status
		}
	}
	return status
}

// failureOf joins the errors of the settlements that were not recorded. It returns nil if all
// were recorded.
func failureOf(settled []dispatcher.Settled) error {
	var errs []error
	for i := range settled {
		if err := settled[i].Err; err != nil {
			errs = append(errs, err)
		}
	}
	return outage.Join(errs...)
}

// stalledLane is a lane with outcomes that could not be recorded.
type stalledLane struct {
	list     []outcome // not tried again before until; oldest first
	until    time.Time // zero: its outcomes are being tried again
	failed   int       // failures in a row
	refusals int       // failures in which the queue refused something for good
	single   int       // number of outcomes to try one by one, to find the refused one
}

// refusalsMost is how often the queue may refuse a batch before its outcomes are tried one by
// one.
const refusalsMost = 3

func (r *stalledLane) waits() bool { return r != nil && !r.until.IsZero() }

func (r *stalledLane) together() bool { return r == nil || r.single == 0 }

func (s *settler) isSingle(lane dispatcher.Lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.stalled[lane].together()
}

// stall pauses the lanes with unrecorded outcomes in a batch. It also stalls all outcomes that
// wait behind them, because outcomes of one delivery are recorded in their order. Other lanes
// continue.
func (s *settler) stall(batch, left []outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = 0
	if len(s.stalled) == 0 && len(left) == 0 {
		return // the usual case
	}
	failed, refused := map[dispatcher.Lane]bool{}, map[dispatcher.Lane]bool{}
	for i := range left {
		lane := left[i].ID.Lane
		failed[lane] = true
		refused[lane] = refused[lane] || isRefused(left[i].err)
	}
	for i := range batch {
		lane := batch[i].ID.Lane
		if r := s.stalled[lane]; r != nil && !failed[lane] {
			if r.single--; r.single <= 0 {
				delete(s.stalled, lane)
			}
		}
	}
	if len(left) == 0 {
		return
	}
	for _, o := range left {
		s.keep(o)
	}
	kept := s.waiting[:0]
	for _, o := range s.waiting {
		if failed[o.ID.Lane] {
			s.keep(o)
		} else {
			kept = append(kept, o)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
	for lane := range failed {
		s.stalled[lane].fail(refused[lane])
	}
}

// keep adds an outcome to its stalled lane. mu is locked.
func (s *settler) keep(o outcome) {
	r := s.stalled[o.ID.Lane]
	if r == nil {
		r = &stalledLane{}
		s.stalled[o.ID.Lane] = r
	}
	r.list = append(r.list, o)
	s.stalledCount++
}

// fail pauses a lane, longer after each failure.
func (r *stalledLane) fail(refused bool) {
	r.failed++
	r.until = time.Now().Add(outage.WaitBefore(r.failed))
	if !refused {
		r.refusals = 0
		return
	}
	if r.refusals++; r.refusals >= refusalsMost {
		r.single = len(r.list)
	}
}

// insist tries a refused outcome once more, without the fields that only people read. If the
// queue refuses that too, insist gives the outcome up, because it would stall its lane for
// ever. Its lease stays, so the delivery is not attempted again until this instance ends and
// others take over. If the queue refuses their outcomes too, the delivery dies of poison.
func (s *settler) insist(ctx context.Context, o *outcome) error {
	refusal, plain := o.err, *o
	plain.Attempt = dispatcher.Attempt{Number: o.Attempt.Number, At: o.Attempt.At, Verdict: o.Verdict, Class: o.Attempt.Class, Status: o.Attempt.Status}
	again := []outcome{plain}
	err := s.record(ctx, again)
	o.err, o.unanswered = again[0].err, again[0].unanswered
	if !isRefused(err) {
		return err
	}
	o.err = nil
	o.report(dispatcher.Settled{Err: refusal})
	s.engine.log.LogAttrs(ctx, slog.LevelError, "outcome refused, its delivery stays in flight until this instance ends",
		slog.String("delivery_id", o.ID.String()), slog.String("verdict", o.Verdict.String()), slog.Any("err", refusal))
	return nil
}

// unrecorded returns the outcomes that could not be recorded until the end. The settler
// records no later outcome.
func (s *settler) unrecorded() []outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	all := slices.Clone(s.waiting)
	for _, r := range s.stalled {
		all = append(all, r.list...)
	}
	return all
}
