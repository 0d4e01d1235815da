// Package upcoming reads when there is something to do next. Those ask for it that do not
// stay until then.
package upcoming

import (
	"context"
	_ "embed" // the script
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

//go:embed lua/upcoming.lua
var upcomingSrc string

// lookMost is how many lanes that wait, and how many deliveries, are looked at in a partition:
// as many as a move takes, which costs Redis less than 0.5 ms.
const lookMost = 128

// Reader reads when there is something to do next.
type Reader struct {
	conn   *conn.Client
	script script.Script
	heard  func(partitions.Hint)
}

// NewReader makes a Reader, which hands on the hints of what it reads.
func NewReader(c *conn.Client, heard func(partitions.Hint)) *Reader {
	return &Reader{conn: c, script: script.Make(c.TestClock(), "upcoming", upcomingSrc), heard: heard}
}

// Upcoming asks all partitions in one round trip.
func (r *Reader) Upcoming(ctx context.Context) (dispatcher.Upcoming, error) {
	var all dispatcher.Upcoming
	var errs []error
	for _, a := range r.conn.Send(ctx, conn.Batch{Script: r.script, Calls: r.conn.Everywhere([]any{lookMost})}) {
		h, ok := a.Hint()
		if ok {
			r.heard(h)
		}
		at, paced := a.Time(), a.Time()
		if a.Err == nil {
			all = all.Sooner(upcoming(h.Now, at, paced))
		}
		errs = append(errs, r.conn.InPartition(a.Partition, a.Err))
	}
	err := partitions.Join(errs...)
	if err == nil { // what lies in an emptied partition may be due sooner
		err = r.conn.LostOf(nil)
	}
	if err == nil && all.At.IsZero() {
		err = r.conn.IntactAll(ctx)
	}
	if err != nil {
		return all, fmt.Errorf("read what is due next: %w", err)
	}
	return all, nil
}

// upcoming is what one partition tells. Waits are by its own clock.
func upcoming(now, at, paced time.Time) (u dispatcher.Upcoming) {
	if !at.IsZero() {
		u.At, u.Wait = at, max(at.Sub(now), 0)
	}
	if !paced.IsZero() {
		u.Paced = max(paced.Sub(now), time.Millisecond)
	}
	return u
}
