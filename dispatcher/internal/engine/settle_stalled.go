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
	list     []outcome // not given again before until, the oldest first
	until    time.Time // zero: its outcomes are being given again
	failed   int       // times in a row
	refusals int       // of them, those in which the queue refused something for good
	single   int       // outcomes to be given one by one, to find the one that is refused
}

// refusalsMost is how often the queue may refuse a batch before its outcomes are
// given one by one.
const refusalsMost = 3

func (r *stalledLane) waits() bool { return r != nil && !r.until.IsZero() }

func (r *stalledLane) together() bool { return r == nil || r.single == 0 }

func (s *settler) isSingle(lane dispatcher.Lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.stalled[lane].together()
}

// stall pauses the lanes whose outcomes were not recorded with a batch, and all outcomes that
// wait behind them, because outcomes of one delivery are recorded in their order. Other lanes
// continue.
func (s *settler) stall(batch, left []outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = 0
	if len(s.stalled) == 0 && len(left) == 0 {
		return // as nearly always
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

// fail leaves a lane alone, longer each time.
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

// insist gives a refused outcome once more, without the fields that only people
// read. An outcome that is refused even then would stall its lane for ever, so it is given up.
// Its lease stays: the delivery is not attempted again until this instance ends and
// others take over. Where their outcomes are refused too it dies of poison.
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

// unrecorded are the outcomes that could not be recorded until the end. Later
// outcomes are not recorded at all.
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
