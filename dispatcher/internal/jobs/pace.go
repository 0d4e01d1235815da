package jobs

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// pace keeps a job to its rate, counted by what it changed.
type pace struct {
	interval time.Duration // between two; 0: no bound
	next     time.Time     // when the next may be changed
	now      func() time.Time
}

// paceSteps is how many steps a second a job of a rate makes, where it may: large
// ones cost the store less, small ones are smooth.
const paceSteps = 20

func newPace(r dispatcher.Rate) pace {
	return pace{interval: r.Interval(), now: time.Now}
}

// may is how many of some may be changed now, fewer than all only where the rate asks
// for it.
func (p *pace) may(some int) int {
	if p.interval == 0 {
		return some
	}
	now := p.now()
	if now.Before(p.next) {
		return 0
	}
	// What was missed is made up for, as far as a step takes.
	batch := max(1, int(time.Second/paceSteps/p.interval))
	if missed := int(now.Sub(p.next) / p.interval); !p.next.IsZero() && missed > batch {
		batch = min(missed, 2*batch)
	}
	return min(some, batch)
}

// wait is how long nothing may be changed.
func (p *pace) wait() time.Duration { return max(p.next.Sub(p.now()), time.Millisecond) }

// made counts what was changed.
func (p *pace) made(n int) {
	if p.interval == 0 || n == 0 {
		return
	}
	now := p.now()
	if late := now.Add(-2 * time.Second / paceSteps); p.next.Before(late) {
		p.next = late // no more than that is made up for
	}
	p.next = p.next.Add(time.Duration(n) * p.interval)
}
