// Package ladder knows when to try again.
//
// A Ladder is the list of waits between the attempts of one delivery, and each
// wait is a rung. A ladder of nine rungs allows ten attempts: one at once, and
// one after each rung.
//
//	l, err := ladder.Parse("15s, 3m, 10m")
//	wait, ok := l.Next(1) // 15s, true: the wait after the first attempt failed
//	wait, ok = l.Next(4)  // 0, false: the fourth attempt was the last
//
// Ladders and durations are written for people. Rungs have commas, slashes or spaces
// between. Each is a Go duration, which here may have days too (1d12h), or a number
// of seconds (0.5).
//
// The package starts no timer, reads no clock and rolls no dice. It is free of
// side effects, so a ladder can be shared, tested and simulated without waiting.
package ladder

import (
	"math"
	"slices"
	"time"
)

const (
	// MaxRungs is the most rungs a ladder may have. More of them are a mistake: even
	// at a minute each, 100 attempts are enough.
	MaxRungs = 100

	// MaxDuration is the longest duration the package reads: a year is as far
	// ahead as anything may be scheduled. It also keeps the sum of MaxRungs
	// rungs within what a time.Duration holds.
	MaxDuration = 365 * day

	day = 24 * time.Hour

	// shortest is the least that Faster leaves of a rung. It is the queue's
	// own resolution; any less would turn a wait into none.
	shortest = time.Millisecond
)

// Ladder is a list of waits between attempts. It is a value that never changes.
// The zero Ladder has no rungs: one attempt, and no second one.
type Ladder struct {
	steps []time.Duration // never written to after New; nil where there are none
}

// New makes a ladder of the given waits. It refuses negative ones, those above
// MaxDuration, and more than MaxRungs of them.
func New(steps ...time.Duration) (Ladder, error) {
	if len(steps) > MaxRungs {
		return Ladder{}, tooMany(len(steps))
	}
	for i, step := range steps {
		if why := outOfRange(step); why != "" {
			return Ladder{}, &Error{Rung: i + 1, Text: step.String(), Why: why}
		}
	}
	// An empty list becomes nil, so that equal ladders are deeply equal.
	return Ladder{steps: append([]time.Duration(nil), steps...)}, nil
}

// Default is the ladder of ten attempts within 25 hours: quick enough for a
// receiver that restarts, long enough for one that is repaired the next morning.
func Default() Ladder {
	return Ladder{steps: []time.Duration{
		15 * time.Second, 3 * time.Minute, 10 * time.Minute,
		30 * time.Minute, 30 * time.Minute, time.Hour,
		2 * time.Hour, 6 * time.Hour, 15 * time.Hour,
	}}
}

// Next reports the wait before the try that follows attempt, counting from 1.
// ok is false when the ladder has no rung left.
func (l Ladder) Next(attempt int) (wait time.Duration, ok bool) {
	if attempt < 1 || attempt > len(l.steps) {
		return 0, false
	}
	return l.steps[attempt-1], true
}

// Len is the number of rungs. A ladder allows one attempt more than that.
func (l Ladder) Len() int { return len(l.steps) }

// Total is the sum of all waits: how long after the first attempt the last one
// begins, if attempts took no time.
func (l Ladder) Total() time.Duration {
	var sum time.Duration
	for _, step := range l.steps {
		sum += step
	}
	return sum
}

// Cut is the ladder with at most the given number of attempts in all, the first
// one included. Zero, and any negative number, leaves it as it is.
func (l Ladder) Cut(attempts int) Ladder {
	if attempts < 1 || attempts > len(l.steps) {
		return l
	}
	if attempts == 1 {
		return Ladder{}
	}
	return Ladder{steps: l.steps[: attempts-1 : attempts-1]}
}

// Faster is the ladder with each wait divided by factor, for demonstrations. A
// wait does not fall below a millisecond, unless it was shorter before. A factor
// below 1 makes the ladder slower, up to MaxDuration for a rung; one that is not
// a positive number leaves it as it is.
func (l Ladder) Faster(factor float64) Ladder {
	if !(factor > 0) || len(l.steps) == 0 { // NaN is not above 0 either
		return l
	}
	steps := slices.Clone(l.steps)
	for i, step := range steps {
		scaled := float64(step) / factor
		if scaled >= float64(MaxDuration) {
			steps[i] = MaxDuration
			continue
		}
		steps[i] = max(time.Duration(scaled), min(step, shortest))
	}
	return Ladder{steps: steps}
}

// Jittered is wait and a random part of it: wait × (1 + fraction × random), with
// random in [0,1). It only ever adds, since nothing may be tried before its
// time. It never overflows: a sum that is too long becomes the longest
// time.Duration. A fraction or random number that is negative or NaN adds nothing.
func Jittered(wait time.Duration, fraction, random float64) time.Duration {
	if !(fraction > 0) || !(random > 0) {
		return wait
	}
	extra := float64(wait) * fraction * random
	if !(extra > 0) {
		return wait
	}
	if extra >= float64(math.MaxInt64-wait) {
		return math.MaxInt64
	}
	return wait + time.Duration(extra)
}
