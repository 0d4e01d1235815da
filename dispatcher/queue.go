package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What a queue may answer besides success.
var (
	// ErrNotFound says that no such message or delivery is kept.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable says that the queue could not be reached, or did not
	// answer: whether the change was made is unknown.
	ErrUnavailable = errors.New("queue unavailable")
	// ErrNotDurable says that it was stored, but not where Durability asks for:
	// it goes on, but may be forgotten still. It is an ErrUnavailable.
	ErrNotDurable = fmt.Errorf("stored, but not as durable as asked: %w", ErrUnavailable)
	// ErrMoved says that the queue is no longer as this instance found it: it is
	// divided, or laid out, in another way. Every call fails from then on, and the
	// engine ends, since it would write what no other instance reads. It is an
	// ErrUnavailable.
	ErrMoved = fmt.Errorf("it changed under this instance: %w", ErrUnavailable)
	// ErrFull says that the queue has no memory left; nothing was changed.
	ErrFull = errors.New("queue full")
	// ErrFenced says that this instance was declared dead and must start anew
	// under another name.
	ErrFenced = errors.New("instance fenced")
	// ErrInFlight says that an attempt is under way, so that none can be asked for.
	ErrInFlight = errors.New("an attempt is under way")
	// ErrDelivered says that the receiver has it already.
	ErrDelivered = errors.New("delivered already")
	// ErrExpired says that it may not be attempted any more.
	ErrExpired = errors.New("expired")
	// ErrOrder says that others of its ordering key go first.
	ErrOrder = errors.New("others go first")
	// ErrNoDelivery says that a message is kept, but does not go to a destination.
	ErrNoDelivery = errors.New("it does not go there")
	// ErrBusy says that too many tests are under way.
	ErrBusy = errors.New("too many tests are under way")
	// ErrNoLane says that there is no such lane.
	ErrNoLane = errors.New("no such lane")
	// ErrListing says that too many lists are asked for at once.
	ErrListing = errors.New("too many lists are read at once")
	// ErrNothing says that by what is known nothing may be claimed, so that
	// nothing was asked.
	ErrNothing = errors.New("nothing to claim")
)

// Queue is all that the engine asks of its store. Each stage names the part it
// needs; package queuetest has the suite that every store must pass.
//
// Every method may be called from several goroutines. An error that wraps
// ErrUnavailable leaves open whether the change was made.
type Queue interface {
	Scheduler
	Mover
	Claimer
	Settler
	Reaper
	Trimmer
	Reader
	Changer
	Laner
	Waker

	// Notify has events called from now on. It comes before any other call.
	Notify(events Events)
	// Now is what time it is by the queue's clock, as far as its answers told; by
	// this host's before the first.
	Now() time.Time
	// ReadClock reads it.
	ReadClock(ctx context.Context) error
	// Nodes is the number of masters that the queue lies on, each of which has a
	// memory of its own and may be down by itself; 0: it is not known yet.
	Nodes() int
	// Ping reports whether the store answers.
	Ping(ctx context.Context) error
	// Close ends all connections.
	Close() error
}

// Death is a delivery that died.
type Death struct {
	ID       DeliveryID
	Reason   DeadReason
	Attempts int // made until then; of ReasonPoison also those whose holders died
}

// Instance is what a process that dispatches tells the others of itself.
type Instance struct {
	Permits   int       // deliveries that it may have in flight
	Version   string    // of the program
	StartedAt time.Time // by the queue's clock, or before the first answer by its own
}

// Opening is a breaker that opened.
type Opening struct {
	Lane  Lane
	Until time.Time // nothing is attempted before
}

// Entry is one message on its way into the queue, with the lanes it goes to.
type Entry struct {
	Message *Message
	Digest  Digest
	Lanes   []Lane
	Fan     bool // they are those that match: one that is full does not refuse the message, but its delivery is dead
}

// Result says what became of a published message.
type Result uint8

// The results of a publish. The zero value is none of them.
const (
	_         Result = iota
	Accepted         // new, kept
	Duplicate        // the same id and content was there already
	Conflict         // the id was there with other content; nothing changed
	LaneFull         // as much waits in its lane as may; nothing changed
)

// String is the result as metrics spell it.
func (r Result) String() string {
	switch r {
	case Accepted:
		return "accepted"
	case Duplicate:
		return "duplicate"
	case Conflict:
		return "conflict"
	case LaneFull:
		return "lane_full"
	default:
		return "none"
	}
}

// ScheduleResult is what became of an Entry.
type ScheduleResult struct {
	Result    Result
	CreatedAt time.Time   // of the message now in the queue; zero on a conflict, or where the lane was full
	Due       time.Time   // of its first attempt; zero unless Accepted
	Leased    []Lane      // lanes whose delivery this instance holds now, without a claim
	LeasedAt  []time.Time // since when, for each of Leased in turn; see Lease
	Ready     []Lane      // lanes whose delivery is ready for any instance
	Behind    []Lane      // lanes where it waits for the one before it with the same ordering key
	Cancelled []Lane      // lanes of deleted endpoints, where it ended at once

	// Ended is when those of Cancelled and Dead did.
	Ended time.Time
	// Dead has the lanes where it died at once, of ReasonDisabled or
	// ReasonOverflow; nil: none.
	Dead map[Lane]DeadReason
	// Versions has the version of the limits that each endpoint's lane keeps, 0
	// where it keeps none; nil: no lane is an endpoint's.
	Versions map[Lane]int64

	// Err is ErrUnavailable or ErrFull: part of it may be stored. Where Result is
	// set beside it all is, but not as durable as it should be. What is leased is
	// leased either way.
	Err error
}

// Scheduler puts messages in.
type Scheduler interface {
	// Schedule stores a batch for instance by. Deliveries that are due at once
	// may be leased to it directly, at most lease of them and only where their
	// lane is lighter than free permits.
	// The answers are in the order of the entries. The error is for what
	// concerns them all; what concerns one is its Err.
	Schedule(ctx context.Context, by string, free, lease int, batch []Entry) ([]ScheduleResult, error)
}

// Mover makes ready what is due.
type Mover interface {
	// Move moves a batch of what is due wherever something is, and answers 0: more
	// may be due. Where by what is known nothing is due it asks nothing, and
	// answers how long to wait; wait < 0: nothing waits for a time.
	Move(ctx context.Context, by string) (wait time.Duration, err error)
}

// Claimed is a delivery leased to an instance, with all it takes to attempt it.
type Claimed struct {
	ID      DeliveryID
	Message *Message  // nil when the record can't be read
	Due     time.Time // since when it was ready, or for when it was scheduled
	Attempt int       // the number of the attempt to come, from 1
	Rung    int       // the same counted from where its ladder began, from 1, without those beside it
	Asked   bool      // a person asked for this attempt
	WaitsOn time.Time // until when it waits if this attempt fails, since that interrupted its ladder; zero: its ladder goes on
	First   bool      // nothing ever happened to it before
	Version int64     // of the limits that its lane keeps; 0: none
	Leased  time.Time // when that was; see Lease
}

// Lease is a delivery that an instance holds. Since when, in whole ms by the clock
// of its partition, tells the lease from a later one of the same delivery.
type Lease struct {
	ID DeliveryID
	At time.Time
}

// Claimer takes what is ready.
type Claimer interface {
	// Claimable is for how many batches this instance may claim something, by what
	// is known, with so many permits free; waiting says that there is something, if
	// not for so few.
	Claimable(free int) (batches int, waiting bool)
	// Claim leases at most wanted ready deliveries to instance by, which has
	// free permits in all. It returns none and no error when there was nothing,
	// ErrNothing where it asked nobody, and ErrFenced when the instance was
	// declared dead. What was leased is answered also beside an error.
	Claim(ctx context.Context, by string, wanted, free int) ([]Claimed, error)
	// Leases names what instance by holds in the queue. What was read is
	// answered also beside an error of other partitions.
	Leases(ctx context.Context, by string) ([]Lease, error)
	// Body reads a large body, which Claim leaves out. Few are read at a time: it
	// waits for its turn as long as ctx allows. ErrNotFound says that it is gone.
	Body(ctx context.Context, id DeliveryID, a Apart) ([]byte, error)
}

// Settlement is the outcome of an attempt on its way into the queue.
type Settlement struct {
	ID      DeliveryID
	Verdict Verdict
	Wait    time.Duration // Retry: until the next attempt
	Reason  DeadReason    // Dead: why
	Due     time.Time     // Back: since when it was ready
	Attempt Attempt       // what happened; its Next is set by the queue
	First   bool          // as claimed: a success then leaves no history
	Stalled LaneWhy       // why the pause is no receiver's wish: WhySealed or WhyMissing; empty: it is
	Blame   bool          // the failure counts for the lane's breaker: no answer, or 5xx
	Pause   time.Duration // the receiver asked that its lane be left alone so long
	Host    string        // where the attempt went, for the log

	// Leased is when the delivery was leased; zero: whenever that was. An outcome
	// without an attempt may be given again since its answer was lost, and meet a
	// lease that the same instance took since. Of attempts the number tells that.
	Leased time.Time

	// Unanswered is the instance that gave it before and got no answer; empty: none did.
	// Only the engine reads it.
	Unanswered string
}

// Settled says what a settlement changed.
type Settled uint8

// What became of a settlement. The zero value is none of them.
const (
	_             Settled = iota
	SettledOK             // as asked
	SettledLate           // the lease was lost; nothing changed
	SettledDone           // the lease was lost, but the success was counted
	SettledEnd            // it had been cancelled, or delivered by another, meanwhile; so it ended
	SettledBefore         // nothing changed: the delivery died of this very outcome, whose answer was lost
)

// Settler records outcomes.
type Settler interface {
	// Settle records a batch of outcomes of instance by, in order. Beside an
	// error, those that were not recorded are 0 and may be given again. deaths
	// are what died of it.
	Settle(ctx context.Context, by string, batch []Settlement) (settled []Settled, deaths []Death, err error)
}

// Reaper knows which instances are alive, and takes over from those that are not.
type Reaper interface {
	// Join tells the others what instance by is. It comes before its first beat.
	Join(ctx context.Context, by string, i Instance) error
	// Beat writes a number that grows for instance by and answers those of all
	// instances. fresh is true when it was not known before the call: at the
	// first beat, or after it was declared dead.
	Beat(ctx context.Context, by string, number int64) (fresh bool, all map[string]int64, err error)
	// Reap fences instance dead, moves all it held to the head of their lanes
	// and then forgets it. It may be repeated, by anybody. taken counts the
	// deliveries it moved.
	Reap(ctx context.Context, by, dead string) (taken int, err error)
	// Leave forgets instance by, which holds nothing any more.
	Leave(ctx context.Context, by string) error
	// Orphans names instances that left, or were taken over from, and hold leases
	// again: a node that took over may have forgotten that they gave them up. Only
	// the names of the last ones are remembered. What was found is answered
	// also beside an error of other partitions.
	Orphans(ctx context.Context) (names []string, err error)
}

// Keep says how much finished work a partition keeps, and how long.
type Keep struct {
	Finished    time.Duration // delivered and cancelled, whole, and after that the ids
	FinishedMax int           // of them, in the whole project
	SeenMax     int           // ids still known of what FinishedMax cut, in the whole project
	Dead        time.Duration
	DeadMax     int // in the whole project
}

// Trimmed counts what one call forgot.
type Trimmed struct {
	Finished int           // delivered and cancelled, cut to their digest or gone
	Seen     int           // ids
	Dead     int           // dead
	DeadCut  int           // of these, the ones that went before their age because there were too many
	CutAge   time.Duration // the least age at which a finished delivery was cut because there were too many; 0: none was
	Lanes    int           // states of lanes that nothing used
	Looked   []LaneVersion // lanes of endpoints whose states stay
	More     bool
	Asked    int // parts of the queue; 0: there was nowhere to forget anything
}

// TrimWhere says where something is forgotten.
type TrimWhere uint8

// Where a Trim looks.
const (
	TrimEnded TrimWhere = iota // where deliveries ended since the last one
	TrimAged                   // besides in the next part in turn, since age goes on without work
	TrimMore                   // where the last one found more than a batch
	TrimFull                   // where there is no memory, to make room
)

// Trimmer forgets what is old.
type Trimmer interface {
	// Trim forgets at most one batch in each part of the queue that where means.
	// With TrimFull it makes space: the oldest finished work goes, but none whose
	// message is younger than a minute, and where none goes any more the ids still
	// known.
	Trim(ctx context.Context, by string, keep Keep, where TrimWhere) (Trimmed, error)
}

// Change is what became of a delivery that somebody wanted changed.
type Change struct {
	ID      DeliveryID
	Changed bool
	Err     error // ErrNotFound; of Retry also each other reason why it left one; nil where it just was so already
}

// Left is why a delivery was left.
func (c Change) Left() Left {
	for _, reason := range []struct {
		err  error
		left Left
	}{
		{ErrInFlight, LeftInFlight}, {ErrOrder, LeftOrder}, {ErrDelivered, LeftDelivered}, {ErrExpired, LeftExpired},
		{ErrDisabled, LeftDisabled}, {ErrDeleted, LeftDeleted},
	} {
		if errors.Is(c.Err, reason.err) {
			return reason.left
		}
	}
	if c.Changed {
		return LeftNot
	}
	return LeftReady
}

// Changer carries out what people ask for.
type Changer interface {
	// Cancel ends what is not finished. What is in flight ends with its attempt.
	Cancel(ctx context.Context, by string, ids []DeliveryID) ([]Change, error)
	// Retry makes ready at once: a waiting delivery is attempted beside its
	// ladder, an ended one starts a new one, one in flight is left with
	// ErrInFlight, one that waits behind another of its key with ErrOrder, one that
	// has expired with ErrExpired, those of a lane that takes nothing with
	// ErrDisabled and ErrDeleted, and one that was delivered with ErrDelivered
	// unless those are to be sent again too.
	Retry(ctx context.Context, by string, ids []DeliveryID, delivered bool) ([]Change, error)
}

// Subscriber are told what happens elsewhere. None may block.
type Subscriber struct {
	OnEndpoint func(EndpointChange) // changed by any instance, this one included
	OnGap      func()               // something may have been missed: at the start, and at each reconnection
}

// Waker tells what other instances changed.
type Waker interface {
	// Watch tells what others publish until ctx ends.
	Watch(ctx context.Context, by string, ears Subscriber) error
	// Polls reports that nothing can be told, since the store has no pub/sub
	// that may be used: the engine has to look. Watch must not be called.
	Polls() bool
	// Look finds out what there is to do without changing anything, and answers 0:
	// everywhere with all, else where an answer was lost. Where there is nothing
	// to look at it asks nothing, and answers how long to wait; wait < 0: until
	// Unseen is told.
	Look(ctx context.Context, all bool) (wait time.Duration, err error)
	// Cost is how many commands it takes to look at all, and to read all held lanes.
	Cost() (look, held int)
}
