package observe

import (
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

var _ dispatcher.Observer = (*Gauge)(nil)

// Attempted counts an attempt.
func (g *Gauge) Attempted(a dispatcher.Attempted) {
	if a.Attempt.Number == 0 {
		return // it ended without an attempt
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
	if !a.Taken { // a taker attempts at any time
		s.minute.Late.Add(a.Late)
	}
	if dispatcher.ReceiverAnswered(a.Attempt.Class) && (a.Attempt.Duration > 0 || !a.Taken) { // the duration of a taker's late success is unknown
		bar.Took.Add(a.Attempt.Duration)
	}
}

// Published counts a message that was stored.
func (g *Gauge) Published(p dispatcher.Published) {
	if p.Err == nil && p.Result == dispatcher.Accepted && !p.Unmatched() {
		g.present.accepted.Add(1)
	}
}

// Died counts a dead delivery.
func (g *Gauge) Died(dispatcher.Death) { g.present.dead.Add(1) }

// TookOver counts nothing.
func (g *Gauge) TookOver(int) {}

// stripeOf returns the stripe that counts a lane. The last characters of most lanes are a
// hash or random.
func (p *present) stripeOf(lane dispatcher.Lane) *stripe {
	n := 0
	if len(lane) > 1 {
		n = int(lane[len(lane)-1]) + int(lane[len(lane)-2])
	}
	return &p.stripes[n%stripes]
}

// bar returns the bar of a lane, or the shared bar of all others. The caller holds mu.
func (s *stripe) bar(lane dispatcher.Lane, of *present) *dispatcher.LaneBar {
	i, known := s.at[lane]
	if !known && of.lanes.Add(1) > maxLanes {
		of.lanes.Add(-1)
		lane = dispatcher.OtherLanes
		i, known = s.at[lane]
	}
	if !known {
		i = len(s.list)
		lane = dispatcher.Lane(strings.Clone(string(lane))) // a copy, because the lane may be part of a large response
		s.at[lane] = i
		s.list = append(s.list, dispatcher.LaneBar{Lane: lane})
	}
	return &s.list[i]
}

// read adds the stripe's counts to a minute's count. With clears it resets them.
func (s *stripe) read(c *dispatcher.MinuteCount, clears bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Merge(s.minute)
	c.Lanes = append(c.Lanes, s.list...)
	if clears {
		s.minute = dispatcher.Minute{}
		s.list = s.list[:0]
		clear(s.at)
	}
}

// read returns the counts of the present minute, which began at at.
func (p *present) read(at time.Time, clears bool) dispatcher.MinuteCount {
	c := dispatcher.MinuteCount{Minute: dispatcher.Minute{At: at}}
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
		c.Lanes[i].At = at.Truncate(dispatcher.HalfHour)
	}
	return c
}
