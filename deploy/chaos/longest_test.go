package chaos_test

import (
	"slices"
	"time"
)

// deadAfter is how long an instance may be stopped and be taken for alive: three
// beats of two seconds.
const deadAfter = 6 * time.Second

// storeFaults are the times in which no instance could reach the store, or it
// took nothing.
func (j *judge) storeFaults() (spans []span) {
	for _, f := range j.trouble[""] {
		spans = append(spans, f.span)
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	return spans
}

// less is a stretch of time without what the store was down of it.
func less(from, to time.Time, down []span) time.Duration {
	left := to.Sub(from)
	for _, s := range down { // in order, so that what two have in common counts once
		begin, end := s.from, s.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if end.After(begin) {
			left -= end.Sub(begin)
			from = end
		}
	}
	return left
}

// longestTakeover is from a kill or a long stop to the first attempt elsewhere
// of what was under way then. Where something else was broken too, it takes longer: an instance
// is known as dead after three readings that came in time.
func (j *judge) longestTakeover() {
	for _, f := range j.h.faults {
		if f.who == "" || f.kind != killed && (f.kind != stopped || f.to.Sub(f.from) < deadAfter) {
			continue
		}
		for _, m := range j.h.messages {
			for _, held := range m.arrivals {
				if held.line.who() != f.who || !held.underWay(f.from) {
					continue
				}
				next := m.next(held, f)
				if next == nil {
					continue
				}
				took := next.began.Sub(f.from)
				j.found.hindered = max(j.found.hindered, took)
				if took > j.found.takeover && !j.hindered(f, next.began) {
					j.found.takeover, j.found.takeoverOf = took, j.story(m, held.place)
				}
			}
		}
	}
}

// hindered reports whether anything else was broken while an instance was taken
// over, or so shortly before that it was still felt. Another
// instance that ended before does not hinder.
func (j *judge) hindered(f *fault, until time.Time) bool {
	return slices.ContainsFunc(j.h.faults, func(other *fault) bool {
		from := f.from
		if other.kind != killed && other.kind != ended {
			from = from.Add(-deadAfter)
		}
		return other != f && !apart[other.kind] && other.touches(from, until)
	})
}

// underWay reports whether an attempt had begun and its sender had no answer yet.
func (a *arrival) underWay(at time.Time) bool {
	return a.began.Before(at) && (a.over.IsZero() || !a.over.Before(at)) && (a.status == 0 || a.answered.After(at))
}

// next is the same attempt, made by another instance after a fault.
func (m *message) next(held *arrival, f *fault) *arrival {
	for _, a := range m.at(held.place) {
		if a.began.After(f.from) && a.attempt == held.attempt && a.line.who() != "" && a.line.who() != f.who {
			return a
		}
	}
	return nil
}

// longestSilence is the longest time between two acceptances, without the time
// that the store was down.
func (j *judge) longestSilence() (longest time.Duration) {
	down := j.storeFaults()
	var at []time.Time
	for _, m := range j.h.messages {
		for _, t := range m.tries {
			if t.acceptance == accepted {
				at = append(at, t.ended)
			}
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	for i := 1; i < len(at); i++ {
		if at[i].Sub(at[i-1]) > longest {
			longest = max(longest, less(at[i-1], at[i], down))
		}
	}
	return longest
}
