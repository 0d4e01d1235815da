package dispatcher

import (
	"errors"
	"time"
)

// Values that go into the queue, and come out of it.

// Death is a delivery that died.
type Death struct {
	ID       DeliveryID
	Reason   DeadReason
	Attempts int // made until then; of ReasonPoison also those whose holders died
}

// Instance describes a process that dispatches, for the other instances.
type Instance struct {
	Permits   int       // deliveries that it may have in flight
	Version   string    // of the program
	StartedAt time.Time // by the queue's clock, or before the first answer by its own
}

// InstanceState is an instance as read.
type InstanceState struct {
	Name string
	Instance
	SeenAt     time.Time // when the reader saw its last beat, by the queue's clock; zero: it saw none yet
	InFlight   int       // deliveries that it holds
	Partitions int       // parts of the queue in which it holds some
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

// Result is the result of a published message.
type Result uint8

// The results of a publish. The zero value is none of them.
const (
	_         Result = iota
	Accepted         // new, kept
	Duplicate        // the same id and content was there already
	Conflict         // the id was there with other content; nothing changed
	LaneFull         // as much waits in its lane as may; nothing changed
)

// Results lists all of them.
var Results = []Result{Accepted, Duplicate, Conflict, LaneFull}

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

// ScheduleResult is the result of an Entry.
type ScheduleResult struct {
	Result    Result
	CreatedAt time.Time // of the message now in the queue; zero on a conflict, or where the lane was full
	Placed    []Placed  // one for each of the entry's lanes, in their order; nil on a conflict

	// Err is ErrUnavailable or ErrFull: part of it may be stored. Where Result is set beside it
	// all is, but not as durable as it should be. A lease is valid either way.
	Err error
}

// Placed is where a publish put the delivery of one lane.
type Placed struct {
	Lane    Lane
	Status  Status     // StatusInFlight: the publishing instance has its lease, without a claim; empty: none was made here
	Due     time.Time  // of its first attempt; zero: it ended, or waits behind another one of its ordering key
	At      time.Time  // since when it is leased, see Lease, or when it ended
	Reason  DeadReason // StatusDead: ReasonDisabled or ReasonOverflow
	Version int64      // of the limits that an endpoint's lane keeps; 0: none
}

// SuspectLanes is how many suspects an instance may lease at once, each of another lane.
const SuspectLanes = 32

// Claim asks for ready deliveries.
type Claim struct {
	Wanted   int    // deliveries at most
	Free     int    // permits in all, those wanted among them
	Suspects []Lane // lanes of which the instance has leased a suspect
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
	Suspect bool      // two of its holders died: Begin is called before its attempt
	Alone   bool      // a suspect that began beside others when one more holder died: nothing else may run beside it
	Version int64     // of the limits that its lane keeps; 0: none
	Leased  time.Time // when that was; see Lease
	Egress  EgressWait
}

// EgressWait says that a lane waits for the instances' own network. The zero value says
// that it does not.
type EgressWait struct {
	Since time.Time     // of the first attempt that our network made fail, without another outcome since
	Wait  time.Duration // the last wait after one
}

// Lease is a delivery that an instance holds. The time of the lease, in whole ms by the clock
// of its partition, distinguishes it from a later one of the same delivery.
type Lease struct {
	ID DeliveryID
	At time.Time
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
	Stalled LaneWhy       // why the pause is no receiver's wish: WhySealed, WhyMissing or WhyEgress; empty: it is. WhyEgress also of a failed attempt for which the lane waits on
	Blame   bool          // the failure counts for the lane's breaker: no answer, or 5xx
	Fails   bool          // the lane fails: as Blame, and any other answer that is no success but 429 or a rejection
	Pause   time.Duration // the receiver asked that its lane be left alone so long
	Host    string        // where the attempt went, for the log

	// DisableAfter is how long the lane may fail before it is given up; 0: for ever.
	DisableAfter time.Duration
	Endpoint     *Endpoint // as it was called; nil: a bare URL, or nothing was called

	// Leased is when the delivery was leased; zero: whenever that was. An outcome without an
	// attempt may be given again since its answer was lost, and meet a lease that the same
	// instance took since. For attempts the number shows that.
	Leased time.Time
}

// Judged sets the meaning of an answer. The attempt's number and its begin are still to be set.
func (s *Settlement) Judged(o Outcome) {
	s.Verdict, s.Wait, s.Reason, s.Attempt = o.Verdict, o.Wait, o.Reason, o.Attempt
	s.Blame, s.Fails, s.Pause = o.Blame, o.Fails, o.Pause
}

// Settled is what became of a settlement.
type Settled struct {
	Result  SettleResult // zero: Err says why it was not recorded
	GivenUp time.Time    // since then its lane fails, for DisableAfter by now; zero: it is not to be given up
	Died    *Death       // its delivery, of it; nil: that lives, or had ended before
	Err     error        // shared by all that failed together; of ErrUnavailable it may be recorded all the same
}

// SettleResult is the effect of a settlement.
type SettleResult uint8

// What became of a settlement. The zero value is none of them.
const (
	_             SettleResult = iota
	SettledOK                  // as asked
	SettledLate                // the lease was lost; nothing changed
	SettledDone                // the lease was lost, but the success was counted
	SettledEnd                 // it had been cancelled, or delivered by another, meanwhile; so it ended
	SettledBefore              // nothing changed: the delivery died of this very outcome, whose answer was lost
)

// Keep says how much finished work a partition keeps, and how long.
type Keep struct {
	Finished    time.Duration // delivered and cancelled, whole, and after that the ids
	FinishedMax int           // of them, in the whole project
	SeenMax     int           // ids still known of what FinishedMax cut, in the whole project
	Dead        time.Duration
	DeadMax     int   // in the whole project
	LogBytes    int   // memory of what is told of attempts, in the whole project; 0: 64 MiB
	Backlog     int64 // bytes that are kept in the whole project since they are not archived, where there is an archive; 0: 256 MiB
}

// Trimmed counts the deliveries that one call deleted.
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

// Change is what became of a delivery that somebody wanted changed.
type Change struct {
	ID      DeliveryID
	Changed bool
	Marked  bool  // it is cancelled, and leaves its lane's list later
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

// Subscriber are told what happens elsewhere. None may block.
type Subscriber struct {
	OnEndpoint func(EndpointChange) // changed by any instance, this one included
	OnGap      func()               // something may have been missed: at the start, and at each reconnection
	OnTakeable func([]Lane)         // there is something to take from pull lanes where there was nothing, by any instance; AllLanes: anywhere
}

// Upcoming is when there is something to do next.
type Upcoming struct {
	At    time.Time     // the earliest time at which something may be attempted, or ended; zero: nothing waits for a time
	Wait  time.Duration // until At, by the clock of that part of the queue; 0: it may be done at once
	Paced time.Duration // until a lane goes on whose ready deliveries wait for its rate only; 0: none does
}

// Sooner returns the earlier of two times.
func (u Upcoming) Sooner(v Upcoming) Upcoming {
	if u.At.IsZero() || !v.At.IsZero() && (v.Wait < u.Wait || v.Wait == u.Wait && v.At.Before(u.At)) {
		u.At, u.Wait = v.At, v.Wait
	}
	if u.Paced == 0 || v.Paced > 0 && v.Paced < u.Paced {
		u.Paced = v.Paced
	}
	return u
}

// Tick is what became of a call that waits until nothing is due.
type Tick struct {
	Attempted int // while it waited, also of what others asked for; an attempt that failed counts too
	Delivered int
	Dead      int
	Next      time.Time // when to tick again; zero: when there is something new
}

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
	Partial   bool // Dead, OldestDue, Held, LanesBy and Lanes are of some of the lanes only: there are too many to look at all at once
	Now       time.Time
	Instances int
	Retention time.Duration // for how long finished deliveries are kept whole by now, in the partition that keeps them least long
	Lanes     []LaneState   // the 50 with the most waiting, those that are paused first
	Store     StoreInfo
}

// Standing is the stored state of a message that was published again.
type Standing struct {
	Result     Result    // Duplicate; Conflict: only another message of its id; 0: none
	CreatedAt  time.Time // of the first one
	Deliveries []Delivery
	Err        error // of a partition that did not report it
}
