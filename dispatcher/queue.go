package dispatcher

import (
	"errors"
	"time"
)

// The values that callers pass to the queue, and that it returns.

// Death is a delivery that died.
type Death struct {
	ID       DeliveryID
	Reason   DeadReason
	Attempts int // attempts made until then; of ReasonPoison also the attempts of dead instances
}

// Instance describes a process that dispatches, for the other instances.
type Instance struct {
	Permits   int       // deliveries that it may have in flight
	Version   string    // of the program
	StartedAt time.Time // by the queue's clock; by its own before the first response
}

// InstanceState is an instance as the queue returns it.
type InstanceState struct {
	Name string
	Instance
	SeenAt     time.Time // when the reader saw its last beat, by the queue's clock; zero: it has seen none yet
	InFlight   int       // deliveries that it has leased
	Partitions int       // parts of the queue in which it has leased some
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
	Fan     bool // Lanes come from a fan-out: if one is full, its delivery is dead, and the message is not refused
}

// Result is the result of publishing one message.
type Result uint8

// The results of a publish. The zero value is none of them.
const (
	_         Result = iota
	Accepted         // new, kept
	Duplicate        // there was a message of the same id and content already
	Conflict         // there was a message of the same id with other content; nothing changed
	LaneFull         // its lane is full; nothing changed
)

// Results lists all results of a publish.
func Results() []Result {
	return []Result{Accepted, Duplicate, Conflict, LaneFull}
}

// String returns the result as metrics spell it.
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
	CreatedAt time.Time // of the message now in the queue; zero on a conflict, or if the lane was full
	Placed    []Placed  // one for each of the entry's lanes, in their order; nil on a conflict

	// Err is ErrUnavailable or ErrFull: a part of it may be stored. If Result is set as well, all
	// of it is stored, but not as durably as asked. A lease is valid in both cases.
	Err error
}

// Placed is the result of a publish in one lane.
type Placed struct {
	Lane    Lane
	Status  Status     // StatusInFlight: the publishing instance has leased it, without a claim; empty: no delivery was made here
	Due     time.Time  // of its first attempt; zero: it ended, or waits for another one of its ordering key
	At      time.Time  // the time of its lease, see Lease, or of its end
	Reason  DeadReason // StatusDead: ReasonDisabled or ReasonOverflow
	Version int64      // of the limits that an endpoint's lane keeps; 0: none
	NewLane bool       // StatusInFlight: no attempt in its lane ever ended
}

// SuspectLanes is the highest number of suspects that an instance leases at once, each of another
// lane.
const SuspectLanes = 32

// Claim asks for ready deliveries.
type Claim struct {
	Wanted   int    // the highest number of deliveries
	Free     int    // all free permits, the wanted ones included
	Suspects []Lane // lanes with a suspect that the instance has leased
	Later    bool   // deliveries may be returned unread, because the instance has enough others to attempt

	// Unread are deliveries of earlier claims. The claim also reads their messages. It leaves
	// a delivery unread if its part of the queue failed, or if it has no message.
	Unread []Claimed
}

// Claimed is a delivery leased to an instance, with everything that an attempt needs.
type Claimed struct {
	ID      DeliveryID
	Message *Message  // nil when the record can't be read, or if it is unread
	Unread  bool      // its message has to be read before its attempt
	Due     time.Time // the time at which it was ready, or its scheduled time
	Attempt int       // the number of the attempt to come, from 1
	Rung    int       // the number of the attempt on its ladder, from 1, without extra attempts
	Snoozes int       // how often its handlers let it wait on this ladder
	Asked   bool      // a person asked for this attempt
	WaitsOn time.Time // the delivery waits until then if this attempt fails, because the attempt interrupted its ladder; zero: its ladder continues
	First   bool      // this is its first attempt, without any history
	Suspect bool      // two instances that leased it died: Begin is called before its attempt
	Alone   bool      // a suspect that ran beside others when another instance died: nothing else may run beside it
	Version int64     // of the limits that its lane keeps; 0: none
	Leased  time.Time // the time of the lease; see Lease
	Egress  EgressWait
	NewLane bool // no attempt in its lane ever ended

	// LastError is the error of the attempt before, of a Take without For; empty: there was none, or it
	// succeeded.
	LastError string
}

// EgressWait describes how long a lane waits because of the instances' own network. The zero
// value means that it does not wait.
type EgressWait struct {
	Since time.Time     // of the first attempt that our network made fail, without another outcome since
	Wait  time.Duration // the last wait after such an attempt
}

// Lease is a delivery that an instance has leased. The time of the lease, in whole ms by the
// clock of its partition, distinguishes it from a later lease of the same delivery.
type Lease struct {
	ID DeliveryID
	At time.Time
}

// Settlement is the outcome of an attempt on its way into the queue.
type Settlement struct {
	ID      DeliveryID
	Verdict Verdict
	Wait    time.Duration // Retry, Snoozed: until the next attempt. Back: the delivery alone waits for so long because of Stalled; zero: it is ready at once
	Reason  DeadReason
	Due     time.Time     // Back: the time at which it was ready
	Attempt Attempt       // the attempt; the queue sets its Next
	First   bool          // as claimed: a success then leaves no history
	Stalled LaneWhy       // the reason of a pause that the receiver did not ask for: WhySealed, WhyMissing or WhyEgress; empty: it asked. WhyEgress also of a failed attempt after which the lane waits
	Blame   bool          // the failure counts for the lane's breaker: no response, or 5xx
	Fails   bool          // the lane fails: as Blame, and any other response except a success, 429 or a rejection
	Pause   time.Duration // the pause of the lane that the receiver asked for
	Host    string        // the host that was called, for the log

	// DisableAfter limits how long the lane may fail before its endpoint is disabled; 0: no
	// limit.
	DisableAfter time.Duration
	Endpoint     *Endpoint // the endpoint as it was called; nil: a bare URL, or nothing was called

	// Leased is the time of the lease; zero: any time. An outcome without an attempt may be
	// recorded twice, because the first response was lost. The same instance may have a new lease
	// by then. For attempts, the number shows that.
	Leased time.Time
}

// Judged copies the outcome. The caller still sets the attempt's number and start.
func (s *Settlement) Judged(o Outcome) {
	s.Verdict, s.Wait, s.Reason, s.Attempt = o.Verdict, o.Wait, o.Reason, o.Attempt
	s.Blame, s.Fails, s.Pause = o.Blame, o.Fails, o.Pause
}

// Settled is the result of recording a settlement.
type Settled struct {
	Result  SettleResult // zero: Err has the reason why it was not recorded
	GivenUp time.Time    // the time at which its lane began to fail, if that is DisableAfter ago; zero: the lane is not disabled
	Died    *Death       // the death of its delivery by this outcome; nil: it lives, or had ended before
	Err     error        // the error of all that failed together; after ErrUnavailable it may still have been recorded
}

// SettleResult is the effect of a settlement.
type SettleResult uint8

// The results of a settlement. The zero value is none of them.
const (
	_             SettleResult = iota
	SettledOK                  // as asked
	SettledLate                // the lease was lost; nothing changed
	SettledDone                // the lease was lost, but the success was counted
	SettledEnd                 // the delivery had been cancelled, or delivered by another instance, so it ended
	SettledBefore              // nothing changed: the delivery died of this same outcome, whose response was lost
)

// Keep has the limits of finished work in a partition, by number and by age.
type Keep struct {
	Finished    time.Duration // age of whole delivered and cancelled records, and after that of the ids
	FinishedMax int           // number of these records in the whole project
	SeenMax     int           // number of ids kept after FinishedMax cut their records, in the whole project
	Dead        time.Duration
	DeadMax     int
	LogBytes    int   // memory of the log of attempts, in the whole project; 0: 64 MiB
	Backlog     int64 // bytes kept in the whole project because they are not archived yet, if there is an archive; 0: 256 MiB
}

// Trimmed counts the deliveries that one call deleted.
type Trimmed struct {
	Finished int           // delivered and cancelled, cut to their digest or gone
	Seen     int           // ids
	Dead     int           // dead
	DeadCut  int           // of Dead: deleted before their age because there were too many
	CutAge   time.Duration // the least age at which a finished delivery was cut because there were too many; 0: none was
	Lanes    int           // deleted states of unused lanes
	Unused   []LaneVersion // unused lanes of endpoints, whose states stay
	More     bool
	Asked    int // parts of the queue that were called; 0: there was nothing to delete
	Left     int // deliveries that ended in parts that were not called, because few did there
}

// TrimWhere selects the parts of the queue for a Trim.
type TrimWhere uint8

// The selections of a Trim.
const (
	TrimEnded TrimWhere = iota // parts in which many deliveries ended after the last Trim, or some did a second ago
	TrimAged                   // all parts in which deliveries ended, and the next part in turn, because deliveries age without work
	TrimMore                   // parts in which the last Trim found more than a batch
	TrimFull                   // parts without free memory, to make room
)

// Change is the result of changing one delivery.
type Change struct {
	ID      DeliveryID
	Changed bool
	Marked  bool  // it is cancelled, and leaves its lane's list later
	Err     error // ErrNotFound; of Retry also any other reason to leave one; nil if it already was as asked
}

// Left returns the reason why the delivery was left.
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

// Subscriber has the callbacks for changes by any instance. They must not block.
type Subscriber struct {
	OnEndpoint func(EndpointChange) // any instance changed an endpoint, this one included
	OnGap      func()               // a change may have been missed: at the start, and at each reconnection
	OnTakeable func([]Lane)         // pull lanes that were empty have deliveries now, from any instance; AllLanes: any lane
}

// Events are the callbacks of a queue to its engine. They run on the goroutine that called the
// queue, so they must not block: the engine only records that there is work.
type Events struct {
	Ready  func()               // Claimable may return more than before
	Due    func()               // something is due sooner than Move returned
	Unseen func()               // a response was lost: Poll has to query the queue
	Back   func()               // the queue's clock went back: Poll has to query everything
	Ended  func(deliveries int) // deliveries ended, so a Trim may find work
	Dead   func(deaths []Death) // without the deaths that a Settled reports

	Emptied func(*Emptied) // the store lost data; nil: they were restored or given up

	// The queue's clock jumped against this host's monotonic clock, and this host's own clock moved by
	// host meanwhile. It is not called for each jump if there are many.
	Jumped func(by, host time.Duration)

	Failing func(LaneFailing)                                    // an attempt failed, or succeeded after a failure
	Opened  func(lane Lane, since time.Time, wait time.Duration) // a lane's breaker opened, or opened again; the lane fails since then
	Closed  func(lane Lane, since time.Time)                     // a lane's breaker closed; the lane failed since then; zero: no attempt closed it
}

// LaneFailing reports that a lane fails, or no longer fails.
type LaneFailing struct {
	Lane      Lane
	Since     time.Time     // of the first failure after the last success
	For       time.Duration // the time from Since until now
	Recovered bool          // it no longer fails
	Why       LaneWhy       // of Recovered: WhyChanged or WhyResumed; empty: an attempt succeeded
}

// Whole returns the events with an empty function for each nil one.
func (e Events) Whole() Events {
	for _, f := range []*func(){&e.Ready, &e.Due, &e.Unseen, &e.Back} {
		if *f == nil {
			*f = func() {}
		}
	}
	if e.Ended == nil {
		e.Ended = func(int) {}
	}
	if e.Dead == nil {
		e.Dead = func([]Death) {}
	}
	if e.Emptied == nil {
		e.Emptied = func(*Emptied) {}
	}
	if e.Jumped == nil {
		e.Jumped = func(time.Duration, time.Duration) {}
	}
	if e.Opened == nil {
		e.Opened = func(Lane, time.Time, time.Duration) {}
	}
	if e.Closed == nil {
		e.Closed = func(Lane, time.Time) {}
	}
	if e.Failing == nil {
		e.Failing = func(LaneFailing) {}
	}
	return e
}

// Attempted is one settled attempt, as reported to observers.
type Attempted struct {
	ID      DeliveryID
	Topic   string
	URL     string // of the message; empty: it has none, as a message to an endpoint
	Host    string // of the destination
	Attempt Attempt
	Wait    time.Duration // Retry: until the next attempt
	Reason  DeadReason    // Dead: why
	Taken   bool          // a taker made it, and no receiver was called
	Late    time.Duration // the delay of its start after its due time, or after its acceptance if that was later

	// Since is the time from acceptance to delivery, if this attempt delivered, with all rungs
	// and pauses. For a delivery with a later scheduled time, it counts from then. 0: it was not
	// delivered, or a person had it sent again.
	Since time.Duration
}

// Observer receives events for metrics and for followers. The hot path calls its methods, so
// they must not block.
type Observer interface {
	Attempted(a Attempted)
	// Published is called with the result of each message of a Publish, also if that is an error.
	// An accepted message without deliveries matched no endpoint.
	Published(p Published)
	// TookOver is called after this instance took over all deliveries of a dead one.
	TookOver(deliveries int)
	// Died is called once for each delivery that a call of this instance ended as dead.
	Died(d Death)
}
