package dispatcher

import (
	"context"
	"time"
)

// AllLanes stands for every lane where one may be paused or let go.
const AllLanes Lane = "*"

// Held says why a lane may not be claimed from.
type Held uint8

// Why a lane is held.
const (
	HeldNone     Held = iota
	HeldPaused        // what comes waits
	HeldDisabled      // what waits and what comes is dead, unattempted
	HeldDeleted       // what waits and what comes is cancelled
)

// LaneLimits are the copy of an endpoint's limits that its lane keeps, so that
// scripts need nothing else. The zero value is a lane without an endpoint.
type LaneLimits struct {
	Version     int64         // of the endpoint; 0: the lane has none
	MaxInFlight int           // over all instances; 0: the store's default
	Interval    time.Duration // between two attempts, whole µs; 0: no rate
	Ordered     bool
	Held        Held

	// Name is no limit, and empty mostly: what a bare URL's lane is for, as
	// URLLaneName tells it, where it may be held before its first message.
	Name string
}

// LaneCount is what a lane has at a moment.
type LaneCount struct {
	InFlight int
	Waiting  int // due, ready or behind
}

// LaneState is a lane as read.
type LaneState struct {
	Lane   Lane
	URL    string // origin, where it is known
	Tenant string // whose messages go there; empty: those without a tenant
	UID    string // of the endpoint whose lane it is; empty: it has none
	Limits LaneLimits
	LaneCount
	Known  bool      // something was published to it, or somebody held it
	Since  time.Time // it is held; zero: it is not, or that is not known
	Window int       // deliveries it may have in flight now
	Fails  int       // blamed failures in a row
	Opened int       // how often its breaker opened in a row; 0: it is closed
	Until  time.Time // nothing is attempted before: breaker, or Retry-After; zero: no such time
	Token  time.Time // the rate allows the next attempt; zero: it is no matter
}

// State is the lane's state in one word.
func (s *LaneState) State() EndpointState {
	switch {
	case s.Limits.Held == HeldDisabled || s.Limits.Held == HeldDeleted:
		return StateDisabled
	case s.Limits.Held == HeldPaused:
		return StatePaused
	case s.Opened > 0:
		return StateOpen
	}
	return StateActive
}

// LaneVersion is a lane with the version of the limits that it keeps.
type LaneVersion struct {
	Lane    Lane
	Version int64 // 0: none of an endpoint
}

// HeldLane is a lane that is held.
type HeldLane struct {
	LaneVersion
	Held  Held
	Since time.Time
	By    string // the instance that wrote it
}

// Laner knows the lanes.
type Laner interface {
	// Limit writes the copy of a lane's limits unless the one there is as new,
	// and places the lane where it belongs then. Limits with version 0 are
	// written in any case: that is how a lane without an endpoint is held and
	// let go; of AllLanes only Held counts, in every partition. With clear the
	// breaker is closed too, and what a receiver asked to wait for forgotten.
	// The count is from before.
	Limit(ctx context.Context, by string, lane Lane, l LaneLimits, clear bool) (LaneCount, []Hint, error)
	// Sweep ends what waits in a disabled or deleted lane for a time or its
	// turn, a batch from cursor on ("" at first), and answers the next cursor,
	// "" at the end. What it does not reach is ended when its time comes.
	Sweep(ctx context.Context, by string, lane Lane, cursor string) (ended int, next string, hints []Hint, err error)
	// ForgetLane takes away the limits of a lane that nobody's endpoint has, if
	// they are still of that version, were made at least age ago, and nothing is
	// in the lane. It reports whether it did.
	ForgetLane(ctx context.Context, by string, copied LaneVersion, age time.Duration) (forgotten bool, err error)
	// HeldLanes reads a page of the lanes of a partition that are held, but not
	// AllLanes. One may come twice. next is empty at the end.
	HeldLanes(ctx context.Context, partition int, cursor string) (list []HeldLane, next string, err error)
	// LaneNames reads a page of what the lanes of a partition are called. One may
	// come twice. next is empty at the end.
	LaneNames(ctx context.Context, partition int, cursor string) (list []LaneName, next string, err error)
	// LaneStates reads lanes, in the order asked for.
	LaneStates(ctx context.Context, lanes []Lane) ([]LaneState, error)
	// Lanes reads a page of all lanes that are known, those last made first;
	// AllLanes is the first of the first page while it is held.
	Lanes(ctx context.Context, limit int, cursor string) (states []LaneState, next string, err error)
}
