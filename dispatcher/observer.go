package dispatcher

import (
	"time"
)

// Attempted is one settled attempt, as observers see it.
type Attempted struct {
	ID      DeliveryID
	Topic   string
	Host    string // of the destination
	Attempt Attempt
	Wait    time.Duration // Retry: until the next attempt
	Reason  DeadReason    // Dead: why
	Taken   bool          // a taker made it, and nothing was called
	Late    time.Duration // how long after its due time, or its acceptance where that was later, it began

	// Since is how long a delivery took that this attempt delivered: since it was
	// accepted, or since the time it was published for where that is later, with
	// all rungs and pauses. 0: it was not delivered, or a person had it sent again.
	Since time.Duration
}

// Observer is told what happens, for metrics and for people who watch. Its
// methods are called on the hot path and must not block.
type Observer interface {
	Attempted(a Attempted)
	// Published tells what became of one message of a Publish, also where that
	// is an error. An accepted one without deliveries matched no endpoint.
	Published(p Published)
	// TookOver tells that this instance moved all that another one held, which
	// died.
	TookOver(deliveries int)
	// Died tells of a delivery that died, once, whatever ended it: the call of
	// this instance that did so was answered.
	Died(d Death)
}
