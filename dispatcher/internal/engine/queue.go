package engine

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/endpoints"
)

// Queue is the store of an Engine. It has one field for each group of methods that a part of
// the engine calls. Usually one store fills all fields.
//
// Every method may be called from several goroutines. After an error that wraps
// dispatcher.ErrUnavailable it is unknown whether the change was made. TestQueue of package
// redisq has the rules.
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
	// Schedule stores a batch for instance by. It may lease deliveries that are due at once to
	// that instance. It leases at most lease of them, in lanes that are light enough for free
	// permits. The results have the order of the entries. An error of one entry is in its
	// result. An error of all entries is returned.
	Schedule(ctx context.Context, by string, free, lease int, batch []dispatcher.Entry) ([]dispatcher.ScheduleResult, error)
	// Partitions returns the number of parts of the queue. Schedule calls each part that has
	// some of the batch. The number stays while the instance runs.
	Partitions() int
	// Move makes a batch of due deliveries ready in each part of the queue, and ends waiting
	// deliveries that expired. It returns a wait of 0 if more may be due. If it knows of
	// nothing due, it sends no query and returns the time until then. A negative wait means
	// that nothing waits for a time.
	//
	// Expired leases of takers become leases of instance by, without bodies. Move returns
	// them, even with an error, and the caller has to settle them as failed. ErrFenced says
	// that the instance was declared dead.
	Move(ctx context.Context, by string) (wait time.Duration, ended []dispatcher.Claimed, err error)
	// Claimable estimates how many batches this instance may claim with its free permits.
	// waiting is true if something is ready, maybe in lanes that need more free permits.
	Claimable(free int) (batches int, waiting bool)
	// Claim leases ready deliveries to instance by. It returns none and no error if nothing
	// was ready, and ErrNothing if it sent no query. ErrFenced says that the instance was
	// declared dead. Claim may return leases together with an error. Suspects above the limit
	// of the instance wait for a few seconds. If a delivery stays unread because it has no
	// message, a claim soon after it was handed back drops it.
	Claim(ctx context.Context, by string, c dispatcher.Claim) ([]dispatcher.Claimed, error)
	// Messages reads the messages of deliveries that Claim returned unread, like a claim with
	// Unread.
	Messages(ctx context.Context, unread []dispatcher.Claimed) error
	// Body reads a large body, because Claim returns none. Few bodies are read at a time, so
	// it waits for its turn until ctx ends. ErrNotFound says that the body no longer exists.
	Body(ctx context.Context, id dispatcher.DeliveryID, a dispatcher.Apart) ([]byte, error)
	// Begin records that instance by begins its attempt at a suspect. If the instance dies,
	// the suspect dies too. With beside, other code that may crash the instance runs at the
	// same time. Then the suspect survives, but its next attempt has to run alone. Begin
	// reports whether the instance still has the lease.
	Begin(ctx context.Context, by string, l dispatcher.Lease, beside bool) (bool, error)
	// Settle records a batch of outcomes of instance by, in order, and returns the result of
	// each. The caller may pass outcomes again if they were not recorded.
	Settle(ctx context.Context, by string, batch []dispatcher.Settlement) []dispatcher.Settled
	// Leases lists the leases of instance by. If a part of the queue fails, it returns the
	// leases of the others together with the error.
	Leases(ctx context.Context, by string) ([]dispatcher.Lease, error)
	// EndWaits ends the waits of lanes that wait for our own network, so they are attempted at
	// once. Other lanes in the list do not change.
	EndWaits(ctx context.Context, by string, lanes []dispatcher.Lane) error
	// Trim deletes at most one batch of old data in each part of the queue that where selects.
	// With TrimFull it frees memory. It deletes the oldest finished deliveries whose messages
	// are older than 15 s. If there are none, it deletes known ids.
	Trim(ctx context.Context, by string, keep dispatcher.Keep, where dispatcher.TrimWhere) (dispatcher.Trimmed, error)

	// Cancel ends unfinished deliveries. A delivery in flight ends with its attempt.
	Cancel(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, error)
	// Reschedule lets waiting deliveries be due at another time. It does not change these deliveries:
	//   - one in flight or ended, or whose attempt a person asked for, without an error,
	//   - one behind another of its ordering key, with ErrOrder,
	//   - one that expires before that time, with ErrExpired.
	Reschedule(ctx context.Context, by string, ids []dispatcher.DeliveryID, at time.Time) ([]dispatcher.Change, error)
	// Retry makes deliveries ready at once. A waiting delivery gets an attempt beside its
	// ladder. A finished one starts a new ladder. Retry does not change these deliveries:
	//   - one in flight, with ErrInFlight,
	//   - one behind another of its ordering key, with ErrOrder,
	//   - an expired one, with ErrExpired,
	//   - one in a lane that accepts nothing, with ErrDisabled or ErrDeleted,
	//   - a delivered one, with ErrDelivered, unless delivered is set.
	Retry(ctx context.Context, by string, ids []dispatcher.DeliveryID, delivered bool) ([]dispatcher.Change, error)
}

// Reads are the queries for messages, deliveries and instances. No query changes anything.
type Reads interface {
	// Read reads a message and its deliveries with their histories, or ErrNotFound.
	Read(ctx context.Context, id string) (dispatcher.MessageView, error)
	// Standing reads the deliveries of messages, without histories. The results have the order
	// of the entries. It reads the partitions of an entry's lanes, or all partitions for a
	// fan-out.
	Standing(ctx context.Context, batch []dispatcher.Entry) ([]dispatcher.Standing, error)
	// Known reports for each id whether any partition knows a message with that id, at least
	// by its digest.
	Known(ctx context.Context, ids []string) ([]bool, error)
	// Kept reads for each entry the other message with the same id. The result is nil if there
	// is none, or if it is no longer stored completely. It does not read large bodies.
	Kept(ctx context.Context, batch []dispatcher.Entry) ([]*dispatcher.Message, error)
	// List reads a page of deliveries. A page may be short even if Next is set.
	List(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
	// Ended reads a page of the finished deliveries of a lane, ordered by completion time. It
	// excludes the current millisecond, so a resumed list skips no delivery. A delivery that
	// was retried and finished again is listed again.
	Ended(ctx context.Context, f dispatcher.EndedFilter) (dispatcher.EndedPage, error)
	// Dead counts dead deliveries by destination and reason. It is as exact as Stats.
	Dead(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error)
	// Stats counts deliveries, lanes and instances.
	Stats(ctx context.Context) (dispatcher.Stats, error)
	// Upcoming returns the time of the next work. It may be too early but is never too late.
	// It counts as a Poll of the whole queue. If a part of the queue fails, it returns the results of the
	// others together with the error.
	Upcoming(ctx context.Context) (dispatcher.Upcoming, error)
	// Instances reads a page of the instances, last started first, with the number of leases
	// of each. It does not read the times of their beats.
	Instances(ctx context.Context, limit int, cursor string) (list []dispatcher.InstanceState, next string, err error)
}

// Instances are the methods for finding other instances and taking over from dead ones.
type Instances interface {
	// Join publishes the description of instance by. It is called before the first beat.
	Join(ctx context.Context, by string, i dispatcher.Instance) error
	// Beat writes a growing number for instance by, and returns the numbers of all instances.
	// fresh is true if the instance was unknown before: at its first beat, or after it was
	// declared dead.
	Beat(ctx context.Context, by string, number int64) (fresh bool, all map[string]int64, err error)
	// Reap fences instance dead, moves its leased deliveries to the heads of their lanes, and
	// then forgets it. Any instance may repeat it. taken is the number of moved deliveries.
	Reap(ctx context.Context, by, dead string) (taken int, err error)
	// Leave forgets instance by, which must have no lease.
	Leave(ctx context.Context, by string) error
	// Orphans lists instances that left or were reaped but have leases again. This happens
	// because the new master after a failover may not know that they gave up their leases.
	// Only the last names are remembered. If a part of the queue fails, it returns the names
	// of the others together with the error.
	Orphans(ctx context.Context) (names []string, err error)
	// Nodes returns the number of masters of the queue, or 0 if it is not known yet. Each
	// master has its own memory and may fail alone.
	Nodes() int
}

// Store has the methods for the queue as a whole: its clock, its events and its description.
type Store interface {
	// Notify sets the callbacks for events. It is called before any other method.
	Notify(events dispatcher.Events)
	// Watch reports messages of other instances until ctx ends.
	Watch(ctx context.Context, by string, to dispatcher.Subscriber) error
	// Polls reports that the store has no usable pub/sub, so that the engine has to poll.
	// Watch must not be called then.
	Polls() bool
	// Poll reads where there is work, without changing anything, and returns 0. With all it polls the
	// whole queue, otherwise the parts whose last response was lost. If there are no such
	// parts, it sends no query and returns how long to wait. A negative wait ends with the
	// event Unseen.
	Poll(ctx context.Context, all bool) (wait time.Duration, err error)
	// Cost returns the number of commands for one poll of the whole queue, and for reading all
	// paused lanes.
	Cost() (poll, paused int)
	// Now returns the time by the queue's clock, according to its last responses. Before the
	// first response it is the time of this host.
	Now() time.Time
	// ReadClock reads that clock.
	ReadClock(ctx context.Context) error
	// Ping returns an error if the store does not respond.
	Ping(ctx context.Context) error
	// Store describes the store.
	Store(ctx context.Context) (dispatcher.StoreInfo, error)
}
