package bench

import (
	"context"
	"math"
	"sync"
	"time"
)

// pace makes n calls, perSecond of them, each when its time has come whatever
// became of those before: a loop that waits for answers publishes less just when
// it gets slow, and so does not see it. It answers when each call began.
func pace(ctx context.Context, perSecond, n int, call func(i int) error) ([]time.Time, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	every := time.Second / time.Duration(perSecond)
	begun := make([]time.Time, n)
	var calls sync.WaitGroup
	start := time.Now()
	for i := range n {
		if !rest(ctx, time.Until(start.Add(time.Duration(i)*every))) {
			break
		}
		calls.Go(func() {
			begun[i] = time.Now()
			if err := call(i); err != nil {
				cancel(err)
			}
		})
	}
	calls.Wait()
	return begun, context.Cause(ctx)
}

// rest waits, and reports whether ctx lasted as long.
func rest(ctx context.Context, d time.Duration) bool {
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

// quantile is the least of the sorted durations that a share of them does not
// exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// addSpread adds what is to be known of sorted durations.
func (s *sample) addSpread(measurement string, sorted []time.Duration) {
	s.add(measurement+": p50", "ms", milliseconds(quantile(sorted, 0.50)))
	s.add(measurement+": p99", "ms", milliseconds(quantile(sorted, 0.99)))
	s.add(measurement+": max", "ms", milliseconds(quantile(sorted, 1)))
}
