package redisq

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// What the store knows of its partitions by the answers that it got, and whom it
// tells.

// Notify has e called from now on.
func (s *Store) Notify(e dispatcher.Events) {
	s.events = e.Whole()
	s.partitions.Notify(s.events)
}

// Now is what time it is by Redis' clock, as far as answers told.
func (s *Store) Now() time.Time { return s.partitions.Now() }

// Nodes is the number of masters.
func (s *Store) Nodes() int { return s.nodes }

// observe takes in what a script answered with.
func (s *Store) observe(h partitions.Hint) {
	s.partitions.Answered(h)
	if s.answered != nil {
		s.answered(h)
	}
}

// observeDeaths is observe where the caller is not told what died.
func (s *Store) observeDeaths(h partitions.Hint) {
	s.observe(h)
	if len(h.Dead) > 0 {
		s.events.Dead(h.Dead)
	}
}

// observeEnds notes that deliveries ended in a partition, which is to be trimmed then.
func (s *Store) observeEnds(partition, deliveries int) {
	if deliveries > 0 {
		s.partitions.Ended(partition)
		s.events.Ended(deliveries)
	}
}

// observeBreakers tells of the breakers that a call opened and closed.
func (s *Store) observeBreakers(h partitions.Hint) {
	for _, o := range h.Opened {
		s.events.Opened(o.Lane, o.Until.Sub(h.Now))
	}
	for _, lane := range h.Closed {
		s.events.Closed(lane)
	}
}

// Look reads the hints of all partitions, or of those of which an answer was lost.
func (s *Store) Look(ctx context.Context, all bool) (wait time.Duration, err error) {
	list, wait := s.partitions.Unseen()
	if all {
		list = s.all()
	}
	if len(list) == 0 {
		return wait, nil
	}
	hints, err := s.ReadHints(ctx, list)
	for _, h := range hints {
		s.partitions.Heard(h)
	}
	s.partitions.Fail(err)
	return 0, err
}

// Cost is what Look and HeldLanes take: a partition costs three commands to look
// at, and the time one more.
func (s *Store) Cost() (look, held int) { return 3*len(s.tags) + 1, len(s.tags) }

// ReadClock reads the clock of one partition.
func (s *Store) ReadClock(ctx context.Context) error {
	hints, err := s.ReadHints(ctx, []int{0})
	for _, h := range hints {
		s.partitions.Heard(h)
	}
	return err
}
