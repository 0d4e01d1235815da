package console

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// waits describe the cause of a wait, besides the time.
var waits = map[string]string{
	"due": "", "rung": "", "paused": "is paused", "breaker": "waits for the breaker", "retry_after": "as its receiver asked",
	"rate": "waits for its rate", "sealed": "waits for a key that opens its endpoint", "missing": "its endpoint is missing", "egress": "waits for our own network", "order": "others go first",
	"limit": "waits for another to end", "permits": "waits for a free slot", "consumer": "waits to be taken",
}

// insideReasons are waits for our own limits, which a merchant does not see.
var insideReasons = map[string]bool{"rate": true, "sealed": true, "missing": true, "limit": true, "permits": true, "consumer": true}

func (b *builder) waiting() string {
	if b.Masked && insideReasons[b.WaitingFor] {
		return "waits for its turn"
	}
	return waits[b.WaitingFor]
}

// short are the same causes for a list.
var short = map[string]string{
	"due": "next attempt", "rung": "next attempt", "paused": "paused", "breaker": "waits for the breaker", "retry_after": "its receiver asked to wait", "rate": "waits for its rate",
	"sealed": "waits for a key", "missing": "no endpoint", "egress": "our network failed", "order": "others go first", "limit": "waits for its limit", "permits": "waits for a free slot", "consumer": "waits to be taken",
}

// DeliveryStory says in a few words what happened to a delivery, and why it waits. The row has the time
// beside it. A word that this package does not know is shown as it is.
func DeliveryStory(d wire.Delivery, masked bool) string {
	switch dispatcher.Status(d.Status) {
	case dispatcher.StatusDelivered:
		if d.Attempts <= 1 {
			return "at the first attempt"
		}
		return fmt.Sprintf("at attempt %d", d.Attempts)
	case dispatcher.StatusDead:
		return join(failedOf(d), d.DeadReason)
	case dispatcher.StatusCancelled:
		return failedOf(d)
	case dispatcher.StatusInFlight:
		return join(failedOf(d), fmt.Sprintf("attempt %d", d.Attempts+1))
	case dispatcher.StatusScheduled, dispatcher.StatusReady, dispatcher.StatusRetrying:
		why := short[d.WaitingFor]
		if masked && insideReasons[d.WaitingFor] {
			why = "its turn"
		}
		return join(failedOf(d), why)
	}
	return d.Status
}

// failedOf says how many attempts of a delivery failed, and of how many on its present ladder.
func failedOf(d wire.Delivery) string {
	switch {
	case d.Attempts == 0:
		return ""
	case d.Ladder == nil || dispatcher.Status(d.Status).Ended():
		return fmt.Sprintf("%d failed", d.Attempts)
	}
	return fmt.Sprintf("%d of %d failed", d.Rung, d.Ladder.Len()+1)
}

// join joins two clauses; each may be empty.
func join(a, b string) string {
	if a != "" && b != "" {
		a += ", "
	}
	return a + b
}
