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
	"limit": "waits for another to end", "permits": "waits for a permit", "consumer": "waits to be taken",
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
	"due": "its time", "rung": "next rung", "paused": "paused", "breaker": "breaker", "retry_after": "Retry-After", "rate": "its rate",
	"sealed": "a key", "missing": "no endpoint", "egress": "our network", "order": "others first", "limit": "its limit", "permits": "a permit", "consumer": "to be taken",
}

// DeliveryReason says in a word or two why a delivery has its status. A word that this package does not
// know is shown as it is.
func DeliveryReason(d wire.Delivery, masked bool) string {
	switch dispatcher.Status(d.Status) {
	case dispatcher.StatusDelivered:
		if d.Attempts <= 1 {
			return "at once"
		}
		return fmt.Sprintf("at attempt %d", d.Attempts)
	case dispatcher.StatusDead:
		return d.DeadReason
	case dispatcher.StatusCancelled, dispatcher.StatusInFlight:
		return ""
	case dispatcher.StatusScheduled, dispatcher.StatusReady, dispatcher.StatusRetrying:
		if masked && insideReasons[d.WaitingFor] {
			return "its turn"
		}
		return short[d.WaitingFor]
	}
	return d.Status
}
