package read

import (
	"context"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// upcomingMost is the number of waiting lanes, and of deliveries, that are checked in a
// partition. A move takes as many, and costs Redis less than 0.5 ms.
const upcomingMost = 128

// Upcoming queries all partitions in one round trip.
func (s *Deliveries) Upcoming(ctx context.Context) (dispatcher.Upcoming, error) {
	var all dispatcher.Upcoming
	b := conn.Batch{Script: s.scripts.Upcoming, Calls: s.conn.Everywhere([]any{upcomingMost})}
	err := s.conn.SendEach(ctx, b, func(_ int, a *conn.Call) error {
		h, ok := a.Hint()
		if !ok {
			return a.Err
		}
		s.heard(h)
		at, paced := a.Time(), a.Time()
		if a.Err == nil {
			all = all.Sooner(upcomingOf(h.Now, at, paced))
		}
		return a.Err
	})
	if err == nil { // a delivery in an emptied partition may be due sooner
		err = s.conn.LostOf(nil)
	}
	if err == nil && all.At.IsZero() {
		err = s.conn.IntactAll(ctx)
	}
	if err != nil {
		return all, fmt.Errorf("read the next due time: %w", err)
	}
	return all, nil
}

// upcomingOf returns the result of one partition. Waits are by its own clock.
func upcomingOf(now, at, paced time.Time) (u dispatcher.Upcoming) {
	if !at.IsZero() {
		u.At, u.Wait = at, max(at.Sub(now), 0)
	}
	if !paced.IsZero() {
		u.Paced = max(paced.Sub(now), time.Millisecond)
	}
	return u
}
