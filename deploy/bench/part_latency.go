package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

// latencyAt has the rates and the number of messages at each rate. The slower rate
// needs enough messages that its p99 is not its maximum.
var latencyAt = []struct{ rate, full, quick int }{
	{50, 400, 100},
	{1000, 4000, 1000},
}

// latencyPart measures the time from publish to arrival at the receiver under a light
// load.
func latencyPart() part {
	var w *site
	return part{
		name:  "latency",
		about: "from the begin of the publish call to the arrival, at 50/s and at 1,000/s",
		prepare: func(ctx context.Context, l *lab) (err error) {
			w, err = newSite(ctx, l)
			return err
		},
		measure: func(ctx context.Context, l *lab, s *sample) error {
			if err := w.warm(ctx, 1); err != nil {
				return err
			}
			for _, at := range latencyAt {
				took, err := w.paced(ctx, at.rate, l.size(at.full, at.quick))
				if err != nil {
					return fmt.Errorf("%d/s: %w", at.rate, err)
				}
				s.addSpread(fmt.Sprintf("latency at %d/s", at.rate), took)
			}
			return nil
		},
	}
}

// paced publishes n messages one by one at a steady rate. It returns the times from
// publish to arrival, sorted.
func (w *site) paced(ctx context.Context, perSecond, n int) ([]time.Duration, error) {
	run := w.lab.newRun("paced")
	if err := w.receiver.begin(ctx, run, runOptions{Times: true}); err != nil {
		return nil, err
	}
	begun, err := pace(ctx, perSecond, n, func(i int) error {
		return w.lab.callers.publish(w.serve.URL, w.message(run, i, 1, ""))
	})
	if err != nil {
		return nil, err
	}
	return w.after(ctx, run, begun)
}

// after waits for all messages of a run. It returns the times from the given moments
// to the arrivals, sorted.
func (w *site) after(ctx context.Context, run string, moments []time.Time) ([]time.Duration, error) {
	if _, err := w.receiver.expect(ctx, run, len(moments)); err != nil {
		return nil, err
	}
	w.ended += len(moments)
	arrivals, err := w.receiver.arrivals(ctx, run)
	if err != nil {
		return nil, err
	}
	took := make([]time.Duration, len(moments))
	for i, moment := range moments {
		at, ok := arrivals[messageID(run, i)]
		if !ok {
			return nil, fmt.Errorf("the receiver does not know when %s came", messageID(run, i))
		}
		took[i] = at.Sub(moment)
	}
	slices.Sort(took)
	return took, w.receiver.forget(ctx, run)
}

// pace makes n calls at a rate of perSecond. Each call starts at its planned time,
// even if earlier calls have not returned. A loop that waits for each response would
// publish less when the dispatcher is slow, and would hide the slowness. It returns
// the start time of each call.
func pace(ctx context.Context, perSecond, n int, call func(i int) error) ([]time.Time, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	every := time.Second / time.Duration(perSecond)
	begun := make([]time.Time, n)
	var calls sync.WaitGroup
	start := time.Now()
	for i := range n {
		if !kit.Rest(ctx, time.Until(start.Add(time.Duration(i)*every))) {
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

// quantile returns the smallest duration that a share of the sorted durations does
// not exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// addSpread adds figures about the spread of sorted durations.
func (s *sample) addSpread(measurement string, sorted []time.Duration) {
	s.add(measurement+": p50", "ms", milliseconds(quantile(sorted, 0.50)))
	s.add(measurement+": p99", "ms", milliseconds(quantile(sorted, 0.99)))
	s.add(measurement+": max", "ms", milliseconds(quantile(sorted, 1)))
}

const (
	latenessRate                            = 500 // per second
	latenessMessages, latenessMessagesQuick = 30 * latenessRate, 5 * latenessRate
)

// latenessPart measures how long after its due time a message arrives. The messages
// are published well before they are due.
func latenessPart() part {
	var w *site
	return part{
		name:  "lateness",
		about: "arrival after the due time, at 500/s with due times spread over 30 s",
		prepare: func(ctx context.Context, l *lab) (err error) {
			w, err = newSite(ctx, l)
			return err
		},
		measure: func(ctx context.Context, l *lab, s *sample) error {
			if err := w.warm(ctx, 1); err != nil {
				return err
			}
			var late []time.Duration
			err := w.again(func() (err error) {
				late, err = w.spread(ctx, l.size(latenessMessages, latenessMessagesQuick))
				return err
			})
			if err != nil {
				return err
			}
			s.addSpread("lateness", late)
			s.add("lateness: least", "ms", milliseconds(late[0]))
			return nil
		},
	}
}

// spread publishes messages that are due at random moments after the end of the
// publishing. It returns how late they arrived, sorted.
func (w *site) spread(ctx context.Context, n int) ([]time.Duration, error) {
	run := w.lab.newRun("lateness")
	if err := w.receiver.begin(ctx, run, runOptions{Times: true}); err != nil {
		return nil, err
	}
	begin := time.Now().Add(w.lead(n)).Truncate(time.Millisecond) // the precision of the store
	due := make([]time.Time, n)
	for i := range due {
		due[i] = begin.Add(time.Duration(rand.IntN(1000*n/latenessRate)) * time.Millisecond)
	}
	err := w.fill(ctx, n, dueBatch, func(i int) string {
		return w.message(run, i, 1, dueAt(due[i]))
	})
	if err != nil {
		return nil, err
	}
	tooLate := !time.Now().Before(begin)
	late, err := w.after(ctx, run, due)
	if err == nil && tooLate {
		return nil, errLate
	}
	return late, err
}
