// Package ladder has the retry schedule of a delivery.
//
// A Ladder is the list of waits between the attempts of one delivery, and each
// wait is a rung. A ladder of nine rungs allows ten attempts: one at once, and
// one after each rung.
//
//	l, err := ladder.Parse("15s, 3m, 10m")
//	wait, ok := l.Next(1) // 15s, true: the wait after the first attempt failed
//	wait, ok = l.Next(4)  // 0, false: the fourth attempt was the last
//
// Ladders and durations are written for people. Commas, slashes or spaces separate rungs.
// Each is a Go duration, which here may also have days (1d12h), or a number
// of seconds (0.5).
//
// The package starts no timer, reads no clock and uses no random source. It is free of
// side effects, so a ladder can be shared, tested and simulated without waiting.
package ladder

import (
	"math"
	"slices"
	"time"
)

const (
	// MaxRungs is the most rungs of a ladder. More of them are a mistake: even at a
	// minute each, 100 attempts are enough.
	MaxRungs = 100

	// MaxDuration is the longest duration that the package accepts, because nothing may
	// be scheduled more than a year ahead. It also keeps the sum of MaxRungs rungs within
	// a time.Duration.
	MaxDuration = 365 * day

	day = 24 * time.Hour

	// shortest is the shortest rung that Faster returns. It is the resolution of the
	// queue, so anything shorter would be no wait.
	shortest = time.Millisecond
)

// Ladder is a list of waits between attempts. It never changes. The zero Ladder has no
// rungs: one attempt and no retry.
type Ladder struct {
	steps []time.Duration // never written after New; nil if there are none
}

// New returns a ladder of these waits. It returns an error for a negative wait, one above
// MaxDuration, or more than MaxRungs waits.
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

// Default returns the ladder of ten attempts within 25 hours. It is quick enough for a
// receiver that restarts, and long enough for one that is repaired the next morning.
func Default() Ladder {
	return Ladder{steps: []time.Duration{
		15 * time.Second, 3 * time.Minute, 10 * time.Minute,
		30 * time.Minute, 30 * time.Minute, time.Hour,
		2 * time.Hour, 6 * time.Hour, 15 * time.Hour,
	}}
}

// Next returns the wait between attempt, which counts from 1, and the next attempt. ok is
// false if the ladder has no rung left.
func (l Ladder) Next(attempt int) (wait time.Duration, ok bool) {
	if attempt < 1 || attempt > len(l.steps) {
		return 0, false
	}
	return l.steps[attempt-1], true
}

// Len returns the number of rungs. A ladder allows one attempt more.
func (l Ladder) Len() int { return len(l.steps) }

// Total returns the sum of all waits. If attempts took no time, the last one would begin
// that long after the first.
func (l Ladder) Total() time.Duration {
	var sum time.Duration
	for _, step := range l.steps {
		sum += step
	}
	return sum
}

// Cut returns the ladder with at most attempts attempts, including the first. If attempts
// is zero or negative, the ladder is unchanged.
func (l Ladder) Cut(attempts int) Ladder {
	if attempts < 1 || attempts > len(l.steps) {
		return l
	}
	if attempts == 1 {
		return Ladder{}
	}
	return Ladder{steps: l.steps[: attempts-1 : attempts-1]}
}

// Faster returns the ladder with each wait divided by factor, for demonstrations. A wait
// is at least a millisecond, unless it was shorter before. A factor below 1 makes the
// ladder slower, up to MaxDuration for a rung. If factor is not a positive number, the
// ladder is unchanged.
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

// Jittered returns wait with a random part added: wait × (1 + fraction × random), with
// random in [0,1). It never shortens the wait, because no retry may come early. It never
// overflows: a sum that is too long becomes the longest time.Duration. A fraction or
// random number that is negative or NaN adds nothing.
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
