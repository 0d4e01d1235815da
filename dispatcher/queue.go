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
	// ErrReadOnly says that the queue answers, but refuses every change, since it can't
	// write to its disk; nothing was changed. It is an ErrUnavailable.
	ErrReadOnly = fmt.Errorf("the store can't write to its disk: %w", ErrUnavailable)
	// ErrDiskFull says that it can't, since its disk is full. It is an ErrReadOnly.
	ErrDiskFull error = diskFull{}
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
	// ErrArchived says that only the archive still has it: nothing can be attempted or
	// cancelled any more.
	ErrArchived = errors.New("only the archive has it")
	// ErrArchiveAway says that the store has no such message, and that the archive, which
	// may have it, does not answer.
	ErrArchiveAway = errors.New("the archive does not answer")
	// ErrComparing says that the store has it no more, and that its end was cut from the
	// log. The archive learns that it ended when it is compared with the store.
	ErrComparing = errors.New("the archive is not compared with the store yet")
	// ErrBusy says that too many tests are under way.
	ErrBusy = errors.New("too many tests are under way")
	// ErrPull says that an endpoint is of kind pull, so that it is never called.
	ErrPull = errors.New("it is of kind pull, which is never called")
	// ErrNoLane says that there is no such lane.
	ErrNoLane = errors.New("no such lane")
	// ErrListing says that too many lists are asked for at once.
	ErrListing = errors.New("too many lists are read at once")
	// ErrAcceptsOnly says that this instance attempts nothing.
	ErrAcceptsOnly = errors.New("this instance accepts only")
	// ErrNothing says that by what is known nothing may be claimed, so that
	// nothing was asked.
	ErrNothing = errors.New("nothing to claim")
)

// diskFull is an ErrReadOnly with a text of its own.
type diskFull struct{}

func (diskFull) Error() string { return "the disk of Redis is full" }
func (diskFull) Unwrap() error { return ErrReadOnly }

// Degraded says that some parts of the store did not do what was asked, or all of
// them; the others did. The store leaves the parts alone that failed, and looks
// at them again by itself: no call needs to be repeated for them.
type Degraded struct {
	Failed, Of int     // parts
	Errs       []error // why; never empty
}

// Error is told by the first: where a node is down all its parts say the same.
func (e *Degraded) Error() string {
	if len(e.Errs) == 1 {
		return e.Errs[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", e.Errs[0], len(e.Errs)-1)
}

// Unwrap are the reasons.
func (e *Degraded) Unwrap() []error { return e.Errs }

// Queue is all that the engine asks of its store. Package queuetest has the suite
// that every store must pass.
//
// Every method may be called from several goroutines. An error that wraps
// ErrUnavailable leaves open whether the change was made.
type Queue interface {
	// SealCursor makes a cursor of the place where a page ended, which JSON can write. list
	// is a ListName.
	SealCursor(ctx context.Context, list string, place any) (cursor string, err error)
	// OpenCursor reads the place of a cursor. It returns ErrCursor for one of another list,
	// and for one of data that were lost since.
	OpenCursor(ctx context.Context, list, cursor string, place any) error

	// Messages come in, and what is due becomes ready.

	// Schedule stores a batch for instance by. Deliveries that are due at once
	// may be leased to it directly, at most lease of them and only where their
	// lane is lighter than free permits.
	// The answers are in the order of the entries. The error is for what
	// concerns them all; what concerns one is its Err.
	Schedule(ctx context.Context, by string, free, lease int, batch []Entry) ([]ScheduleResult, error)
	// Move moves a batch of what is due wherever something is, and answers 0: more
	// may be due. Where by what is known nothing is due it asks nothing, and
	// answers how long to wait; wait < 0: nothing waits for a time. What has
	// expired where it waits ends. Leases that
	// have ended by themselves become those of instance by, which has to say that
	// their attempts failed; they have no body. They are answered also beside an
	// error, which is ErrFenced where the instance was declared dead.
	Move(ctx context.Context, by string) (wait time.Duration, ended []Claimed, err error)

	// An instance takes what is ready, and says what became of it.

	// Claimable is for how many batches this instance may claim something, by what
	// is known, with so many permits free; waiting says that there is something, if
	// not for so few.
	Claimable(free int) (batches int, waiting bool)
	// Claim leases ready deliveries to instance by. It returns none and no error
	// when there was nothing, and ErrNothing when it did not ask. ErrFenced says
	// that the instance was declared dead. The leases are answered also beside an
	// error. Suspects that it may not have wait for a few seconds.
	Claim(ctx context.Context, by string, c Claim) ([]Claimed, error)
	// Begin notes that the attempt at a suspect begins, which instance by leased: if
	// the instance dies, it dies too. If other code that may end the instance runs
	// beside it, it does not, but it has to be attempted alone from then on. Begin
	// reports whether the lease is still its own.
	Begin(ctx context.Context, by string, l Lease, beside bool) (bool, error)
	// Leases names what instance by holds in the queue. What was read is
	// answered also beside an error of other parts of it.
	Leases(ctx context.Context, by string) ([]Lease, error)
	// Body reads a large body, which Claim leaves out. Few are read at a time: it
	// waits for its turn as long as ctx allows. ErrNotFound says that it is gone.
	Body(ctx context.Context, id DeliveryID, a Apart) ([]byte, error)
	// Settle records a batch of outcomes of instance by, in order, and answers
	// what became of each. What was not recorded may be given again.
	Settle(ctx context.Context, by string, batch []Settlement) []Settled

	// Others take what is not called, by leases that end by themselves.

	// Adopt gives such leases up to instance by, which holds them as those of Claim
	// then and settles them. The answers are in the order of the leases.
	Adopt(ctx context.Context, by string, leases []TakenLease) []Adopted
	// Extend has such leases last so long from now on.
	Extend(ctx context.Context, by string, leases []TakenLease, lasts time.Duration) []Adopted

	// Instances know of each other, and take over from those that are dead.

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
	// Instances reads a page of the instances that there are, those that started last
	// first, and how much each holds. It does not tell when they beat.
	Instances(ctx context.Context, limit int, cursor string) (list []InstanceState, next string, err error)
	// Orphans names instances that left, or were taken over from, and hold leases
	// again: a node that took over may have forgotten that they gave them up. Only
	// the names of the last ones are remembered. What was found is answered
	// also beside an error of other parts of it.
	Orphans(ctx context.Context) (names []string, err error)

	// What is old is forgotten.

	// Trim forgets at most one batch in each part of the queue that where means.
	// With TrimFull it makes space: the oldest finished work goes, but none whose
	// message is younger than 15 s, and where none goes any more the ids still
	// known.
	Trim(ctx context.Context, by string, keep Keep, where TrimWhere) (Trimmed, error)

	// People ask for changes, of deliveries and of lanes.

	// Cancel ends what is not finished. What is in flight ends with its attempt.
	Cancel(ctx context.Context, by string, ids []DeliveryID) ([]Change, error)
	// Retry makes deliveries ready at once. A waiting one is attempted beside its
	// ladder, and one that ended starts a new ladder. It leaves one in flight with
	// ErrInFlight, and one behind another of its key with ErrOrder. It leaves an
	// expired one with ErrExpired, and those of a lane that takes nothing with
	// ErrDisabled or ErrDeleted. It leaves a delivered one with ErrDelivered, unless
	// those are to be sent again too.
	Retry(ctx context.Context, by string, ids []DeliveryID, delivered bool) ([]Change, error)
	// Limit writes the copy of a lane's limits unless the one there is as new,
	// and places the lane where it belongs then. Limits with version 0 are
	// written in any case: that is how a lane without an endpoint is held and
	// let go; of AllLanes only Held counts, everywhere. With clear the
	// breaker is closed too, and what a receiver asked to wait for forgotten, and
	// since when it fails. The count is from before.
	Limit(ctx context.Context, by string, lane Lane, l LaneLimits, clear bool) (LaneCount, error)
	// Sweep ends what waits in a disabled, deleted or cut lane for a time or its
	// turn, a batch from cursor on ("" at first), and answers the next cursor,
	// "" at the end. What it does not reach is ended when its time comes.
	Sweep(ctx context.Context, by string, lane Lane, cursor string) (ended int, next string, err error)
	// Cut gives up a bare URL's lane that fails since then, unless somebody holds
	// it: what was accepted until now ends, HeldCut, and it fails no more. waiting
	// is from before; cut is false where nothing was done.
	Cut(ctx context.Context, by string, lane Lane, since time.Time) (waiting int, cut bool, err error)
	// Uncut takes away the cut of a lane once a whole sweep ended nothing, unless
	// what is in flight may be older.
	Uncut(ctx context.Context, by string, lane Lane) error
	// Works has a lane fail no more, since an attempt that was none of a
	// delivery's succeeded. As by any success its breaker closes.
	Works(ctx context.Context, by string, lane Lane) error
	// EndWaits has lanes that wait for our own network attempted at once. The others of
	// them stay as they are.
	EndWaits(ctx context.Context, by string, lanes []Lane) error
	// ForgetLane takes away the limits of a lane without an endpoint. They must
	// still be of that version and made at least age ago, and the lane must be
	// empty. It reports whether it did. A paused lane in which something waits had
	// an endpoint: it is missing from then on (WhyMissing), and no longer paused.
	ForgetLane(ctx context.Context, by string, copied LaneVersion, age time.Duration) (forgotten bool, err error)
	// HeldLanes reads a page of the lanes that are held, but not AllLanes. One may
	// come twice. next is empty at the end; beside an error it goes on behind what
	// could not be read.
	HeldLanes(ctx context.Context, cursor string) (list []HeldLane, next string, err error)
	// LaneNames reads a page of what the lanes are called. One may come twice. next
	// is as with HeldLanes.
	LaneNames(ctx context.Context, cursor string) (list []LaneName, next string, err error)
	// LaneStates reads lanes, in the order asked for.
	LaneStates(ctx context.Context, lanes []Lane) ([]LaneState, error)
	// Lanes reads a page of all lanes that are known: those that are paused, then
	// the others, those last made first. AllLanes is the first of the first page
	// while it is held.
	Lanes(ctx context.Context, limit int, cursor string) (states []LaneState, next string, err error)
	// PausedLanes reads what is paused: AllLanes first, then those that were
	// paused last, at most so many, and counts the others too. What partitions
	// that answer have is told also beside an error of others.
	PausedLanes(ctx context.Context, most int) (states []LaneState, total int, err error)

	// Others tell what they did, and where nothing is told the engine looks.

	// Watch tells what others publish until ctx ends.
	Watch(ctx context.Context, by string, to Subscriber) error
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

	// Reading changes nothing.

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
	// Ended reads a page of what ended in a lane, oldest first. It tells nothing of the
	// present ms, in which others may end still, so that nothing ends before its last
	// one any more. What was retried and ended anew comes again.
	Ended(ctx context.Context, f EndedFilter) (EndedPage, error)
	// Dead counts what is dead by destination and reason, as exactly as Stats.
	Dead(ctx context.Context, f DeadFilter) (DeadPage, error)
	// Upcoming tells when there is something to do next, which may be too early but is
	// never too late. It counts as a Look at all. What was read is answered also beside
	// an error of other parts of the queue.
	Upcoming(ctx context.Context) (Upcoming, error)
	// Stats counts.
	Stats(ctx context.Context) (Stats, error)
	// Store tells what the store says of itself.
	Store(ctx context.Context) (StoreInfo, error)
	// Intact makes sure, after nothing was found, that the store has the data with which
	// this instance began. These are the data of these lanes, and the project's own if one
	// is an endpoint's; without lanes all. Otherwise the error is an Emptied.
	Intact(ctx context.Context, lanes ...Lane) error

	// The queue as a whole.

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
