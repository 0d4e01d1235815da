package gauge

import (
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/health"
)

var _ dispatcher.Observer = (*Gauge)(nil)

// Attempted counts an attempt.
func (g *Gauge) Attempted(a dispatcher.Attempted) {
	if a.Attempt.Number == 0 {
		return // it ended without one
	}
	s := g.present.stripeOf(a.ID.Lane)
	s.mu.Lock()
	defer s.mu.Unlock()
	bar := s.bar(a.ID.Lane, &g.present)
	if a.Attempt.Verdict == dispatcher.Delivered {
		s.minute.Delivered++
		bar.Delivered++
	} else {
		s.minute.Failed++
		bar.Failed.Add(&a.Attempt)
	}
	if !a.Taken { // takers come when they like
		s.minute.Late.Add(a.Late)
	}
	if health.Answered(a.Attempt.Class) && (a.Attempt.Duration > 0 || !a.Taken) { // of a late success of a taker it is not known
		bar.Took.Add(a.Attempt.Duration)
	}
}

// Published counts a message that was kept.
func (g *Gauge) Published(p dispatcher.Published) {
	if p.Err == nil && p.Result == dispatcher.Accepted && !p.Unmatched() {
		g.present.accepted.Add(1)
	}
}

// Died counts a delivery that died.
func (g *Gauge) Died(dispatcher.Death) { g.present.dead.Add(1) }

// TookOver counts nothing.
func (g *Gauge) TookOver(int) {}

// stripeOf is where a lane is counted. The last characters of most lanes are of a hash or a
// random number.
func (p *present) stripeOf(lane dispatcher.Lane) *stripe {
	n := 0
	if len(lane) > 1 {
		n = int(lane[len(lane)-1]) + int(lane[len(lane)-2])
	}
	return &p.stripes[n%stripes]
}

// bar is that of a lane, or of the others. mu is held.
func (s *stripe) bar(lane dispatcher.Lane, of *present) *health.LaneBar {
	i, known := s.at[lane]
	if !known && of.lanes.Add(1) > maxLanes {
		of.lanes.Add(-1)
		lane = health.Others
		i, known = s.at[lane]
	}
	if !known {
		i = len(s.list)
		lane = dispatcher.Lane(strings.Clone(string(lane))) // of an answer that may be large
		s.at[lane] = i
		s.list = append(s.list, health.LaneBar{Lane: lane})
	}
	return &s.list[i]
}

// read adds what a stripe counted to a count of a minute. With clear, it begins anew.
func (s *stripe) read(c *health.Count, clears bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Merge(s.minute)
	c.Lanes = append(c.Lanes, s.list...)
	if clears {
		s.minute = health.Minute{}
		s.list = s.list[:0]
		clear(s.at)
	}
}

// read is what the present minute, which began then, brought so far.
func (p *present) read(at time.Time, clears bool) health.Count {
	c := health.Count{Minute: health.Minute{At: at}}
	if clears {
		c.Accepted, c.Dead = p.accepted.Swap(0), p.dead.Swap(0)
	} else {
		c.Accepted, c.Dead = p.accepted.Load(), p.dead.Load()
	}
	for i := range p.stripes {
		p.stripes[i].read(&c, clears)
	}
	if clears {
		p.lanes.Store(0)
	}
	for i := range c.Lanes {
		c.Lanes[i].At = at.Truncate(health.Half)
	}
	return c
}
