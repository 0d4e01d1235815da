package bench

import (
	"context"
	"math/rand/v2"
	"time"
)

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
			w, err = newSite(ctx, l, storeOptions{})
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
