package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/hookladder/hookladder/deploy/kit"
)

// startDue is the delay of the message for the next instance. The old instance must
// stop before the message is due.
const startDue = 2 * time.Second

// startPart measures how fast a new instance delivers messages that became due while
// no instance ran. It uses the store with the most waiting messages.
func startPart(all *levels) part {
	return part{
		name:  "start",
		about: "from an instance's start to its first delivery, with 1M waiting",
		prepare: func(ctx context.Context, l *lab) error {
			_, err := all.most(ctx, l)
			return err
		},
		measure: func(ctx context.Context, l *lab, s *sample) error {
			v, err := all.most(ctx, l)
			if err != nil {
				return err
			}
			var took time.Duration
			err = v.again(func() (err error) {
				took, err = v.restarted(ctx)
				return err
			})
			if err != nil {
				return err
			}
			s.add("start: messages waiting", "", float64(v.waiting))
			s.add("start: first delivery", "s", took.Seconds())
			return nil
		},
	}
}

// restarted stops the instance while a message becomes due, and starts the next
// instance. It returns the time from that start to the arrival.
func (v *level) restarted(ctx context.Context) (time.Duration, error) {
	run := v.lab.newRun("start")
	if err := v.receiver.begin(ctx, run, runOptions{Times: true}); err != nil {
		return 0, err
	}
	due := time.Now().Add(startDue << v.late)
	if err := v.lab.callers.publish(v.serve.URL, v.message(run, 0, 1, dueAt(due))); err != nil {
		return 0, err
	}
	if err := v.serve.stop(); err != nil {
		return 0, err
	}
	late := !time.Now().Before(due) // it may be delivered already
	if !kit.Rest(ctx, time.Until(due)) {
		return 0, ctx.Err()
	}
	var err error
	if v.serve, err = v.lab.serve(ctx, v.store); err != nil {
		return 0, fmt.Errorf("start with %s waiting: %w", humanize.Comma(int64(v.waiting)), err)
	}
	if err := v.await(ctx, run, 1); err != nil {
		return 0, err
	}
	if late {
		return 0, errLate
	}
	arrivals, err := v.receiver.arrivals(ctx, run)
	if err != nil {
		return 0, err
	}
	return arrivals[messageID(run, 0)].Sub(v.serve.Began), nil
}
