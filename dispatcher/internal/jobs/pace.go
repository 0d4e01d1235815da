package jobs

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// pace limits the deliveries that a job changes to its rate.
type pace struct {
	interval time.Duration // between two; 0: no limit
	next     time.Time     // time of the next change
	now      func() time.Time
}

// paceSteps is the maximum number of steps per second of a job with a rate. Large steps cost
// the store less, and small ones are smooth.
const paceSteps = 20

func newPace(r dispatcher.Rate) pace {
	return pace{interval: r.Interval(), now: time.Now}
}

// may returns how many of some deliveries may be changed now: all, unless the rate allows
// fewer.
func (p *pace) may(some int) int {
	if p.interval == 0 {
		return some
	}
	now := p.now()
	if now.Before(p.next) {
		return 0
	}
	// A step makes up for missed time, up to twice its size.
	batch := max(1, int(time.Second/paceSteps/p.interval))
	if missed := int(now.Sub(p.next) / p.interval); !p.next.IsZero() && missed > batch {
		batch = min(missed, 2*batch)
	}
	return min(some, batch)
}

// wait returns the time until the next change.
func (p *pace) wait() time.Duration { return max(p.next.Sub(p.now()), time.Millisecond) }

// made counts changes.
func (p *pace) made(n int) {
	if p.interval == 0 || n == 0 {
		return
	}
	now := p.now()
	if late := now.Add(-2 * time.Second / paceSteps); p.next.Before(late) {
		p.next = late // it makes up for no more
	}
	p.next = p.next.Add(time.Duration(n) * p.interval)
}
