package dispatcher

import (
	"errors"
	"time"
)

// What is taken is never called: a queue's handler, or a caller of the API, takes
// deliveries when it has time for them.

// ErrNotTaken says that a delivery is not taken, or no longer by the lease that
// was named: it ended, or another one took the delivery since.
var ErrNotTaken = errors.New("its lease has ended")

// ErrNotYours says that a delivery is taken by somebody else.
var ErrNotYours = errors.New("it is not leased to you")

// Bounds of one Take.
const (
	TakeLanes  = 64          // lanes
	TakeMost   = 128         // deliveries
	LongLease  = time.Hour   // the longest lease that ends by itself
	ShortLease = time.Second // and the shortest
)

// Take asks for deliveries of some pull lanes.
type Take struct {
	Lanes []Lane // at most TakeLanes, each once
	Most  int    // deliveries, at most TakeMost
	Bytes int    // of records that are answered at most, or one delivery

	// For is how long the lease lasts that no instance holds. 0: it is one of the
	// calling instance as Claim gives it, which lasts as long as that lives.
	For   time.Duration
	Token string // which tells the lease from others; needed with For; printable, no spaces
	Owner string // it alone may give the lease back; likewise
}

// Taken is what a Take got.
type Taken struct {
	Claimed []Claimed // a large body is read by Queue.Body
	Until   time.Time // when leases end by themselves; zero: they do not
	More    []Lane    // of those asked for: they have more that may be taken now
}

// TakenLease names a lease that ends by itself.
type TakenLease struct {
	ID    DeliveryID
	Token string // empty: whichever the owner has
	Owner string
}

// Adopted is what became of a lease that was given up to an instance, or made longer.
type Adopted struct {
	Claimed *Claimed  // of Adopt: what the instance holds now, without the body; nil: Err says why not
	Taken   time.Time // when it was taken
	Until   time.Time // of Extend: when it ends now
	Err     error     // ErrNotTaken, ErrNotYours, or of the store; nil where it was done
}
