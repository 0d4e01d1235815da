package engine

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// rest is a lane whose outcomes could not be recorded.
type rest struct {
	list   []dispatcher.Settlement // not given again before until, the oldest first
	until  time.Time               // zero: they are being given again
	failed int                     // times in a row
	said   int                     // of them, those in which the queue said that something can't be recorded, ever
	alone  int                     // outcomes to be given by themselves, so that one that can't be recorded is found
}

// saidMost is how often the queue may refuse a batch before its outcomes are
// given one by one.
const saidMost = 3

func (r *rest) resting() bool { return r != nil && !r.until.IsZero() }

// take answers the next batch, or how long to wait for one; wait < 0: for an
// outcome. With all nothing rests.
func (s *settler) take(all bool) (batch []dispatcher.Settlement, wait time.Duration) {
	now := time.Now()
	wait = -1
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.apart {
		switch {
		case !r.resting():
		case all || !r.until.After(now):
			s.waiting = append(s.waiting, r.list...) // none of that lane came in between
			s.resting -= len(r.list)
			r.list, r.until = nil, time.Time{}
		default:
			wait = sooner(wait, r.until.Sub(now))
		}
	}
	n := 0
	for n < min(len(s.waiting), settleMost) && s.apart[s.waiting[n].ID.Lane].together() {
		n++
	}
	if n == 0 && len(s.waiting) > 0 {
		n = 1
	}
	s.given = n
	batch = append(make([]dispatcher.Settlement, 0, n), s.waiting[:n]...)
	s.waiting = append(s.waiting[:0], s.waiting[n:]...)
	clear(s.waiting[len(s.waiting):min(len(s.waiting)+n, cap(s.waiting))])
	return batch, wait
}

func (r *rest) together() bool { return r == nil || r.alone == 0 }

func (s *settler) isAlone(lane dispatcher.Lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.apart[lane].together()
}

// part leaves the lanes alone of what was not recorded of a batch, and all that
// waits behind it: outcomes of one delivery are recorded in their order. The
// others are as before.
func (s *settler) part(batch, left []dispatcher.Settlement, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = 0
	if len(s.apart) == 0 && len(left) == 0 {
		return // as nearly always
	}
	failed := map[dispatcher.Lane]bool{}
	for _, o := range left {
		failed[o.ID.Lane] = true
	}
	for i := range batch {
		lane := batch[i].ID.Lane
		if r := s.apart[lane]; r != nil && !failed[lane] {
			if r.alone--; r.alone <= 0 {
				delete(s.apart, lane)
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
	said := outage.Any(err, outage.Refuses)
	for lane := range failed {
		s.apart[lane].fail(said)
	}
}

// keep puts an outcome apart. mu is held.
func (s *settler) keep(o dispatcher.Settlement) {
	r := s.apart[o.ID.Lane]
	if r == nil {
		r = &rest{}
		s.apart[o.ID.Lane] = r
	}
	r.list = append(r.list, o)
	s.resting++
}

// fail leaves a lane alone, longer each time.
func (r *rest) fail(said bool) {
	r.failed++
	r.until = time.Now().Add(outage.WaitBefore(r.failed))
	if !said {
		r.said = 0
		return
	}
	if r.said++; r.said >= saidMost {
		r.alone = len(r.list)
	}
}

// insist gives an outcome once more that the queue refuses by itself, without
// all that is only for people to read. What is refused even then would be for
// ever, and its lane with it: it is given up. Its lease stays, and so it is
// not attempted again until this instance ends and others take over; where they
// fare no better it dies of poison.
func (s *settler) insist(ctx context.Context, o dispatcher.Settlement, refusal error) ([]dispatcher.Settled, error) {
	plain := o
	plain.Attempt = dispatcher.Attempt{Number: o.Attempt.Number, At: o.Attempt.At, Verdict: o.Verdict, Class: o.Attempt.Class, Status: o.Attempt.Status}
	settled, err := s.record(ctx, []dispatcher.Settlement{plain})
	if err == nil || !outage.Any(err, outage.Refuses) {
		return settled, err
	}
	s.engine.log.LogAttrs(ctx, slog.LevelError, "outcome refused, its delivery stays in flight until this instance ends",
		slog.String("delivery_id", o.ID.String()), slog.String("verdict", o.Verdict.String()), slog.Any("err", refusal))
	return []dispatcher.Settled{dispatcher.SettledLate}, nil
}

// rest is what could not be recorded until the end.
func (s *settler) rest() []dispatcher.Settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.waiting)
	for _, r := range s.apart {
		all = append(all, r.list...)
	}
	return all
}
