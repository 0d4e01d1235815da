package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// latencyAt are the rates, and for how many messages each is held: the slower
// one needs some to give a p99 that is more than its worst.
var latencyAt = []struct{ rate, full, quick int }{
	{50, 400, 100},
	{1000, 4000, 1000},
}

// latencyPart measures how long a message takes from the publisher to the
// receiver while there is little to do.
func latencyPart() part {
	var w *site
	return part{
		name:  "latency",
		about: "from the begin of the publish call to the arrival, at 50/s and at 1,000/s",
		prepare: func(ctx context.Context, l *lab) (err error) {
			w, err = newSite(ctx, l, storeOptions{})
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

// paced publishes n messages one by one at a steady rate, and answers the times
// from publish to arrival, sorted.
func (w *site) paced(ctx context.Context, perSecond, n int) ([]time.Duration, error) {
	run := w.lab.newRun("paced")
	if err := w.receiver.begin(ctx, run, runOptions{Times: true}); err != nil {
		return nil, err
	}
	begun, err := pace(ctx, perSecond, n, func(i int) error {
		return w.lab.callers.publish(w.serve.api, w.message(run, i, 1, ""))
	})
	if err != nil {
		return nil, err
	}
	return w.after(ctx, run, begun)
}

// after are the times from the moment of each message of a run to its arrival,
// sorted, once all have come.
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
