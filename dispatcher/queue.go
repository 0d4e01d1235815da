package dispatcher

import (
	"errors"
	"fmt"
)

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
	// ErrFenced reports that this instance was declared dead. It must start again under another
	// name.
	ErrFenced = errors.New("instance fenced")
	// ErrInFlight reports that an attempt is under way, so no other one can be asked for.
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
