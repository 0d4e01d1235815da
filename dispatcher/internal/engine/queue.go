package engine

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
)

// Queue is the store of an Engine, with one field for each group of methods that its parts
// call. One store usually fills all fields.
//
// Every method may be called from several goroutines. After an error that wraps
// dispatcher.ErrUnavailable it is unknown whether the change was made. Package queuetest has
// the suite that every store must pass.
type Queue struct {
	Deliveries Deliveries
	Reads      Reads
	Instances  Instances
	Store      Store

	Lanes     endpoints.Lanes
	LaneReads endpoints.LaneReads
}

// Deliveries are the changes of deliveries, in the order of the flow.
type Deliveries interface {
	// Schedule stores a batch for instance by. It may lease deliveries that are due at once
	// to that instance: at most lease of them, in lanes that are lighter than free permits.
	// The results are in the order of the entries. An error of one entry is in its result, an
	// error of all of them is returned.
	Schedule(ctx context.Context, by string, free, lease int, batch []dispatcher.Entry) ([]dispatcher.ScheduleResult, error)
	// Move makes a batch of due deliveries ready in each part of the queue, and ends waiting
	// deliveries that expired. It returns a wait of 0 if more may be due. If nothing is due as
	// far as is known, it sends no query and returns the time until then; wait < 0: nothing
	// waits for a time. Leases of takers that ended become leases of instance by, without
	// bodies. The caller has to settle them as failed. They are returned also beside an error.
	// ErrFenced says that the instance was declared dead.
	Move(ctx context.Context, by string) (wait time.Duration, ended []dispatcher.Claimed, err error)
	// Claimable estimates how many batches this instance may claim with its free permits.
	// waiting says that something is ready, maybe in lanes that need more free permits.
	Claimable(free int) (batches int, waiting bool)
	// Claim leases ready deliveries to instance by. It returns none and no error if nothing was
	// ready, and ErrNothing if it sent no query. ErrFenced says that the instance was declared
	// dead. Leases are returned also beside an error. Suspects above the limit of the instance
	// wait for a few seconds.
	Claim(ctx context.Context, by string, c dispatcher.Claim) ([]dispatcher.Claimed, error)
	// Body reads a large body, which Claim leaves out. Few are read at a time: it waits for its
	// turn until ctx ends. ErrNotFound says that the body is gone.
	Body(ctx context.Context, id dispatcher.DeliveryID, a dispatcher.Apart) ([]byte, error)
	// Begin records that instance by begins its attempt at a suspect: if the instance dies, the
	// suspect dies too. With beside, other code that may crash the instance runs at the same
	// time. Then the suspect survives, but its next attempt has to run alone. Begin reports
	// whether the instance still has the lease.
	Begin(ctx context.Context, by string, l dispatcher.Lease, beside bool) (bool, error)
	// Settle records a batch of outcomes of instance by, in order, and returns the result of
	// each. Outcomes that were not recorded may be given again.
	Settle(ctx context.Context, by string, batch []dispatcher.Settlement) []dispatcher.Settled
	// Leases lists the leases of instance by. Leases that were read are returned also beside
	// an error of other parts of the queue.
	Leases(ctx context.Context, by string) ([]dispatcher.Lease, error)
	// EndWaits has lanes that wait for our own network attempted at once. Other lanes in the
	// list do not change.
	EndWaits(ctx context.Context, by string, lanes []dispatcher.Lane) error
	// Trim deletes at most one batch of old data in each part of the queue that where selects.
	// With TrimFull it makes space: it deletes the oldest finished deliveries whose messages
	// are older than 15 s. If there are none, it deletes known ids.
	Trim(ctx context.Context, by string, keep dispatcher.Keep, where dispatcher.TrimWhere) (dispatcher.Trimmed, error)

	// Cancel ends unfinished deliveries. One in flight ends with its attempt.
	Cancel(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, error)
	// Retry makes deliveries ready at once. A waiting one gets an attempt beside its ladder,
	// and one that ended starts a new ladder. These are left as they are:
	//   - one in flight, with ErrInFlight,
	//   - one behind another of its ordering key, with ErrOrder,
	//   - an expired one, with ErrExpired,
	//   - one in a lane that accepts nothing, with ErrDisabled or ErrDeleted,
	//   - a delivered one, with ErrDelivered, unless delivered is set.
	Retry(ctx context.Context, by string, ids []dispatcher.DeliveryID, delivered bool) ([]dispatcher.Change, error)
}

// Reads are the queries for messages, deliveries and instances. None changes anything.
type Reads interface {
	// Read reads a message and its deliveries with their histories, or ErrNotFound.
	Read(ctx context.Context, id string) (dispatcher.MessageView, error)
	// Standing reads the deliveries of messages, in their order, without histories: in the
	// partitions of an entry's lanes, and of a fan-out in all.
	Standing(ctx context.Context, batch []dispatcher.Entry) ([]dispatcher.Standing, error)
	// Known reports for each id whether any partition knows a message of that id, at least by
	// its digest.
	Known(ctx context.Context, ids []string) ([]bool, error)
	// Kept reads for each entry the other message that has its id. It is nil if there is none,
	// or if it is no longer stored whole. Large bodies are not read.
	Kept(ctx context.Context, batch []dispatcher.Entry) ([]*dispatcher.Message, error)
	// List reads a page of deliveries. A page may be short although Next is set.
	List(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
	// Ended reads a page of the finished deliveries of a lane, ordered by completion time. It
	// excludes the current millisecond, so a resumed list skips no delivery. One that was
	// retried and ended again is listed again.
	Ended(ctx context.Context, f dispatcher.EndedFilter) (dispatcher.EndedPage, error)
	// Dead counts dead deliveries by destination and reason, as exactly as Stats.
	Dead(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error)
	// Stats counts deliveries, lanes and instances.
	Stats(ctx context.Context) (dispatcher.Stats, error)
	// Upcoming returns the next time at which there is something to do. It may be too early but
	// is never too late. It counts as a Look at all. Results are returned also beside an error
	// of other parts of the queue.
	Upcoming(ctx context.Context) (dispatcher.Upcoming, error)
	// Instances reads a page of the instances, last started first, with the number of leases
	// of each. It does not read when they beat.
	Instances(ctx context.Context, limit int, cursor string) (list []dispatcher.InstanceState, next string, err error)
}

// Instances are the methods by which instances know each other, and take over from dead ones.
type Instances interface {
	// Join describes instance by to the others. It comes before its first beat.
	Join(ctx context.Context, by string, i dispatcher.Instance) error
	// Beat writes a growing number for instance by, and returns the numbers of all instances.
	// fresh is true if the instance was unknown before: at its first beat, or after it was
	// declared dead.
	Beat(ctx context.Context, by string, number int64) (fresh bool, all map[string]int64, err error)
	// Reap fences instance dead, moves its leased deliveries to the heads of their lanes, and
	// then forgets it. Any instance may repeat it. taken counts the moved deliveries.
	Reap(ctx context.Context, by, dead string) (taken int, err error)
	// Leave forgets instance by, which has no lease any more.
	Leave(ctx context.Context, by string) error
	// Orphans lists instances that left, or were reaped, and have leases again: after a
	// failover the new master may not know that they gave them up. Only the last names are
	// remembered. Names that were found are returned also beside an error of other parts.
	Orphans(ctx context.Context) (names []string, err error)
	// Nodes is the number of masters of the queue. Each has its own memory and may fail alone;
	// 0: it is not known yet.
	Nodes() int
}

// Store is the queue as a whole: its clock, its events and its description.
type Store interface {
	// Notify sets the callbacks for events. It comes before any other call.
	Notify(events dispatcher.Events)
	// Watch reports what other instances publish, until ctx ends.
	Watch(ctx context.Context, by string, to dispatcher.Subscriber) error
	// Polls reports that the store has no pub/sub that may be used, so that the engine has to
	// poll. Watch must not be called then.
	Polls() bool
	// Look polls for work without changing anything, and returns 0. With all it polls the whole
	// queue, else the parts whose last answer was lost. If there are none, it sends no query
	// and returns how long to wait; wait < 0: until the event Unseen.
	Look(ctx context.Context, all bool) (wait time.Duration, err error)
	// Cost counts the commands of one poll of the whole queue, and of reading all held lanes.
	Cost() (look, held int)
	// Now is the time by the queue's clock, according to its last answers. Before the first
	// answer it is the time of this host.
	Now() time.Time
	// ReadClock reads that clock.
	ReadClock(ctx context.Context) error
	// Ping reports whether the store answers.
	Ping(ctx context.Context) error
	// Store describes the store.
	Store(ctx context.Context) (dispatcher.StoreInfo, error)
}
