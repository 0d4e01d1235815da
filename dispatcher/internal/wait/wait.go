// Package wait has the few ways in which the parts of this program wait: for a time, for
// a signal, longer after each failure, and for the beat of an instance that may be dead
// (beats.go). Every wait ends with its context, and every backoff has a random part, so that
// instances that fail together do not return together.
package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d. It returns early when ctx ends, and reports whether it did not. A
// d of 0 or less does not wait.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Jitter returns a random time between half of d and d.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d/2+1)
}

// Backoff returns the wait before retry n, which counts from 1. It starts at first,
// doubles with each retry up to most, and has jitter.
func Backoff(n int, first, most time.Duration) time.Duration {
	d := most
	if n = max(n, 1); n <= 32 && first<<(n-1)>>(n-1) == first {
		d = min(first<<(n-1), most)
	}
	return Jitter(d)
}

// Signal wakes one goroutine that receives from it. Signals that come while one is
// pending are merged into that one, so Set never blocks.
type Signal chan struct{}

// NewSignal returns a Signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set wakes the goroutine that receives, now or when it receives next.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
