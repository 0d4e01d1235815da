package engine

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

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
