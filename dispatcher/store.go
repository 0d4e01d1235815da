package dispatcher

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Tristate is a property of a store that may be unknown, because managed stores hide many of
// their settings.
type Tristate uint8

// The values of a Tristate. The zero value is Unknown.
const (
	Unknown Tristate = iota
	Yes
	No
)

// String returns yes, no or unknown.
func (k Tristate) String() string {
	switch k {
	case Yes:
		return "yes"
	case No:
		return "no"
	}
	return "unknown"
}

// Check is an ability or a setting that a store should have.
type Check struct {
	Name   string // stable, such as eviction
	Holds  Tristate
	Needed bool   // No: do not use the store
	Detail string // the finding and the cure, in plain words
}

// The data that a store loses when the host of its master dies without warning.
const (
	LosesNothing       = "nothing"        // no acknowledged write
	LosesLastSecond    = "last_second"    // writes that are not on the disk yet: appendfsync everysec
	LosesUnreplicated  = "unreplicated"   // writes that too few replicas have, if as many die as a publish waits for
	LosesSinceSnapshot = "since_snapshot" // no append-only file
	LosesEverything    = "everything"     // its data are only in memory
	LosesUnknown       = "unknown"
)

// Losses lists all Loses words.
func Losses() []string {
	return []string{LosesNothing, LosesLastSecond, LosesUnreplicated, LosesSinceSnapshot, LosesEverything, LosesUnknown}
}

// StoreInfo is the report of a store about itself. A pointer is nil if the store does not report
// the value.
type StoreInfo struct {
	Kind       string // redis, valkey, miniredis, unknown
	Version    string
	Mode       string // single, cluster or sentinel
	Nodes      int    // masters with partitions; 1 unless in a cluster
	UsedBytes  *int64 // of the fullest master
	MaxBytes   *int64 // of the same; 0: no limit
	AppendOnly *bool
	Fsync      string // appendfsync; empty: unknown
	Eviction   string // maxmemory-policy; empty: unknown

	Durability Durability // the writes that a publish waits for
	Durable    Tristate   // whether the store keeps this promise now
	Loses      string     // one of the Loses words
	Emptied    *Emptied   // the lost data that were neither restored nor given up; nil: none
	Checks     []Check
}

// Durability says which writes a publish waits for before it is acknowledged. The zero value
// waits only for the store's memory.
type Durability struct {
	Fsync    bool // the disk of the store's master
	Replicas int  // the number of replicas that have it in memory
}

// ParseDurability reads none, fsync or replicas:<n> with an n from 1 to 9.
func ParseDurability(text string) (Durability, error) {
	switch text {
	case "none":
		return Durability{}, nil
	case "fsync":
		return Durability{Fsync: true}, nil
	}
	if number, ok := strings.CutPrefix(text, "replicas:"); ok {
		if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= 9 && number == strconv.Itoa(n) {
			return Durability{Replicas: n}, nil
		}
	}
	return Durability{}, fmt.Errorf("%q is not none, fsync or replicas:<1 to 9>", text)
}

// Waits reports whether a publish waits for more than the store's response.
func (d Durability) Waits() bool { return d != Durability{} }

// String returns the text that ParseDurability reads.
func (d Durability) String() string {
	switch {
	case d.Fsync:
		return "fsync"
	case d.Replicas > 0:
		return "replicas:" + strconv.Itoa(d.Replicas)
	}
	return "none"
}

// Emptied is the part of a project's data that a store lost, until it is restored or given up. It
// is an error, and an ErrUnavailable: calls that need these data are refused.
type Emptied struct {
	Home       bool  // the endpoints, links and jobs
	Partitions []int // partitions whose deliveries are lost
	Archived   bool  // an archive has the data
}

// Has reports whether a partition is one of them. A nil Emptied has none.
func (e *Emptied) Has(partition int) bool {
	return e != nil && slices.Contains(e.Partitions, partition)
}

// Error returns the lost data and the cure.
func (e *Emptied) Error() string {
	return "the store lost " + e.lost() + ": " + e.Cure()
}

func (e *Emptied) lost() string {
	deliveries := fmt.Sprintf("the deliveries of %d partitions", len(e.Partitions))
	if len(e.Partitions) == 1 {
		deliveries = "the deliveries of one partition"
	}
	switch {
	case e.Home && len(e.Partitions) > 0:
		return "its endpoints and " + deliveries
	case e.Home:
		return "its endpoints"
	default:
		return deliveries
	}
}

// Cure returns the commands that end this state.
func (e *Emptied) Cure() string {
	if e.Archived {
		return "hookladder restore brings back what is archived, hookladder doctor --accept-loss --discard-archive gives it up"
	}
	return "there is no archive to restore it from; hookladder doctor --accept-loss gives it up, and publishing continues"
}

// Unwrap returns ErrUnavailable.
func (e *Emptied) Unwrap() error { return ErrUnavailable }

// NoRight reports that the queue refused a call, because its user lacks a right. An operator may
// grant it at any time, so it is an ErrUnavailable.
type NoRight struct {
	Right string // as an ACL rule, such as +eval; empty: the queue did not name it
}

// Error returns the right that is missing.
func (e *NoRight) Error() string {
	if e.Right == "" {
		return "the user of Redis lacks a right, which hookladder doctor names"
	}
	return "the user of Redis lacks the right " + e.Right
}

// Unwrap returns ErrUnavailable.
func (e *NoRight) Unwrap() error { return ErrUnavailable }

// The errors that a queue returns.
var (
	// ErrNotFound reports that no such message or delivery is kept.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable reports that the queue was not reached, or that its response was lost. It is
	// not known whether the change was made.
	ErrUnavailable = errors.New("queue unavailable")
	// ErrNotDurable reports that it was stored, but not as durably as Durability asks. The
	// delivery continues, but it may still be lost. It is an ErrUnavailable.
	ErrNotDurable = fmt.Errorf("stored, but not as durable as asked: %w", ErrUnavailable)
	// ErrMoved reports that the queue was divided or laid out in another way under this instance.
	// Every later call fails, and the engine ends, because no other instance would read its
	// writes. It is an ErrUnavailable.
	ErrMoved = fmt.Errorf("it changed under this instance: %w", ErrUnavailable)
	// ErrReadOnly reports that the queue refuses every change because it can't write to its disk.
	// Nothing was changed. It is an ErrUnavailable.
	ErrReadOnly = fmt.Errorf("the store can't write to its disk: %w", ErrUnavailable)
	// ErrDiskFull reports that it can't write because its disk is full. It is an ErrReadOnly.
	ErrDiskFull error = diskFull{}
	// ErrFull reports that the queue has no memory left. Nothing was changed.
	ErrFull = errors.New("queue full")
	// ErrMayNotLease reports that this instance may lease nothing at present, because it starts, or
	// its heartbeat is late. Nothing was leased.
	ErrMayNotLease = fmt.Errorf("this instance may lease nothing now: %w", ErrUnavailable)
	// ErrFenced reports that this instance was declared dead. It must start again under another
	// name.
	ErrFenced = errors.New("instance fenced")
	// ErrInFlight reports that an attempt is under way, so no other one can be requested.
	ErrInFlight = errors.New("an attempt is under way")
	// ErrDelivered reports that the receiver already has it.
	ErrDelivered = errors.New("delivered already")
	// ErrExpired reports that its expires_at has passed, so there are no more attempts.
	ErrExpired = errors.New("expired")
	// ErrOrder reports that other deliveries of its ordering key go first.
	ErrOrder = errors.New("others go first")
	// ErrNoDelivery reports that a message is kept, but does not go to a destination.
	ErrNoDelivery = errors.New("it does not go there")
	// ErrArchived reports that only the archive still has it, so it can't be attempted or
	// cancelled.
	ErrArchived = errors.New("only the archive has it")
	// ErrArchiveAway reports that the store has no such message. The archive may have it, but did
	// not respond.
	ErrArchiveAway = errors.New("the archive does not answer")
	// ErrComparing reports that the store no longer has it, and that its end was cut from the
	// log. The archive records its end when it is compared with the store.
	ErrComparing = errors.New("the archive is not compared with the store yet")
	// ErrBusy reports that too many tests are under way.
	ErrBusy = errors.New("too many tests are under way")
	// ErrPull reports that an endpoint is of kind pull, so it is never called.
	ErrPull = errors.New("it is of kind pull, which is never called")
	// ErrNoLane reports that there is no such lane.
	ErrNoLane = errors.New("no such lane")
	// ErrListing reports that too many lists are read at once.
	ErrListing = errors.New("too many lists are read at once")
	// ErrAcceptsOnly reports that this instance makes no attempts.
	ErrAcceptsOnly = errors.New("this instance accepts only")
	// ErrNothing reports that nothing may be claimed, as far as the engine knows. The queue was
	// not called.
	ErrNothing = errors.New("nothing to claim")
)

// diskFull is an ErrReadOnly with a text of its own.
type diskFull struct{}

func (diskFull) Error() string { return "the disk of Redis is full" }
func (diskFull) Unwrap() error { return ErrReadOnly }

// Degraded reports that some or all parts of the store failed a call; the other parts did it. The
// store leaves out the failed parts, and tries them again by itself. No call needs to be repeated
// for them.
type Degraded struct {
	Failed, Of int     // parts
	Errs       []error // the reasons; never empty
}

// Error returns the first error, because all parts on a failed node return the same one.
func (e *Degraded) Error() string {
	if len(e.Errs) == 1 {
		return e.Errs[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", e.Errs[0], len(e.Errs)-1)
}

// Unwrap returns the errors of all failed parts.
func (e *Degraded) Unwrap() []error { return e.Errs }
