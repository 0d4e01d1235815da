package admin

import (
	"context"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// A vigil is how the instances are looked at: for how long, and how often.
type vigil struct {
	readings int           // after the first
	every    time.Duration // between two
	wait     func(ctx context.Context, d time.Duration) bool
	read     func(ctx context.Context) (map[string]int64, error)
	grown    func(names []string) error // is told which are alive, and may end it; nil: it ends once it is known which are dead
}

// silent lists the instances that are dead. It reads until that is decided.
func (v vigil) silent(ctx context.Context) ([]string, error) {
	pulses := dispatcher.NewPulses(v.every, v.readings)
	for last := time.Now(); ; {
		began := time.Now()
		numbers, err := v.read(ctx)
		if err != nil {
			return nil, err
		}
		grown, dead := pulses.Read(numbers, time.Since(last))
		last = time.Now()
		if v.grown != nil && len(grown) > 0 {
			if err := v.grown(grown); err != nil {
				return nil, err
			}
		}
		if pulses.Complete() || v.grown == nil && pulses.Decided() {
			slices.Sort(dead)
			return dead, nil
		}
		if !v.wait(ctx, v.every-time.Since(began)) {
			return nil, ctx.Err()
		}
	}
}
