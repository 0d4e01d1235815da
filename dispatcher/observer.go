package dispatcher

import "time"

// Attempted is one settled attempt, as observers see it.
type Attempted struct {
	ID      DeliveryID
	Topic   string
	Host    string // of the destination
	Attempt Attempt
	Wait    time.Duration // Retry: until the next attempt
	Reason  DeadReason    // Dead: why
	Late    time.Duration // how long after its due time it began
}

// Observer is told what happens, for metrics and for people who watch. Its
// methods are called on the hot path and must not block.
type Observer interface {
	Attempted(a Attempted)
}
