package dispatcher

import (
	"errors"
	"time"
)

// Filter selects deliveries. Empty fields match everything, several values of
// one field any of them.
type Filter struct {
	Statuses []Status
	Topics   []string // patterns, see MatchTopic
	Tenants  []string
	Subjects []string
	Failed   bool // only those that are Delivery.Failed
	Lanes    []Lane
	Reasons  []DeadReason
	Since    time.Time // inclusive; of the end, of the next attempt, or of the claim while one is under way
	Until    time.Time // exclusive
	Limit    int
	Cursor   string // of the page before; empty for the first
}

// Page is a part of a list, newest first.
type Page struct {
	Deliveries []Delivery // without history
	Next       string     // cursor of the next page; empty when this is the last
	LookedAt   int        // entries that were looked at, of which these match
}

// ErrCursor says that a cursor was not made by this queue.
var ErrCursor = errors.New("unknown cursor")

// Stats is a picture of the whole queue. Counts may lag for cancelled work
// whose lane has not come round yet.
type Stats struct {
	Counts    map[Status]int64
	Dead      map[DeadReason]int64
	EverDead  map[DeadReason]int64 // that ever died, also what was retried or forgotten since
	Cancelled int64                // that ever were, likewise
	OldestDue time.Time            // of what may be attempted; zero: nothing is due
	Held      map[LaneWhy]int64    // deliveries that are due and may not be attempted, by why
	LanesBy   map[EndpointState]int64
	Partial   bool // OldestDue, Held, LanesBy and Lanes are of some of the lanes only: there are too many to look at all at once
	Now       time.Time
	Instances int
	Retention time.Duration // for how long finished deliveries are kept whole by now, in the partition that keeps them least long
	Lanes     []LaneState   // the 50 with the most waiting, those that are paused first
	Store     StoreInfo
}

// Standing is what is kept of a message that was published again.
type Standing struct {
	Result     Result    // Duplicate; Conflict: only another message of its id; 0: none
	CreatedAt  time.Time // of the first one
	Deliveries []Delivery
	Err        error // of a partition that did not tell
}
