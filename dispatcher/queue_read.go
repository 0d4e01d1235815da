package dispatcher

import (
	"context"
	"errors"
	"time"
)

// Filter selects deliveries. Empty fields match everything, several values of
// one field any of them.
type Filter struct {
	Statuses []Status
	Topics   []string
	Tenants  []string
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

// Reader looks without changing anything.
type Reader interface {
	// Read reads a message and its deliveries with their histories, or ErrNotFound.
	Read(ctx context.Context, id string) (MessageView, error)
	// Standing tells of messages, in their order, which deliveries they have where
	// their lanes lie, and of a fan-out all: its id, where it goes, its status and
	// its times. Nothing else of them is read.
	Standing(ctx context.Context, batch []Entry) ([]Standing, error)
	// Known reports of ids, in their order, whether a message of that id is
	// known in any partition, if only by what was its content.
	Known(ctx context.Context, ids []string) ([]bool, error)
	// Kept reads for each of a batch the other message that has its id, or nil
	// where there is none or it is no longer kept whole. A body that is kept by
	// itself is not read.
	Kept(ctx context.Context, batch []Entry) ([]*Message, error)
	// List reads a page of deliveries. A page may be short while Next goes on.
	List(ctx context.Context, f Filter) (Page, error)
	// Stats counts.
	Stats(ctx context.Context) (Stats, error)
	// Store tells what the store says of itself.
	Store(ctx context.Context) (StoreInfo, error)
}
