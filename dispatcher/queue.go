package dispatcher

import (
	"errors"
	"fmt"
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
