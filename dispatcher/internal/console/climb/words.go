package climb

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// reasons say in a few words what a delivery died of.
var reasons = map[string]string{
	"exhausted": "its ladder is climbed", "gone": "its receiver answered 410", "expired": "it had expired", "refused": "its address may not be called",
	"disabled": "its endpoint was disabled", "overflow": "too much waited", "poison": "its holders died", "rejected": "its receiver wants no further attempt",
}

// classes say in a few words what went wrong with an attempt.
var classes = map[string]string{
	"status": "its status is no success", "body": "its answer does not say success", "timeout": "no answer in time", "connect": "no connection",
	"reset": "the connection broke", "tls": "its certificate is not valid", "dns": "its name was not found", "protocol": "its answer is no HTTP",
	"refused": "its address may not be called", "expired": "it had expired", "egress": "our own network failed", "internal": "our own fault", "lease": "it was not settled in time",
	"handler": "its handler failed",
}

// waits say what an attempt waits for, besides its time.
var waits = map[string]string{
	"due": "", "rung": "", "paused": "is paused", "breaker": "waits for the breaker", "retry_after": "as its receiver asked",
	"rate": "waits for its rate", "sealed": "waits for a key that opens its endpoint", "missing": "its endpoint is missing", "egress": "waits for our own network", "order": "others go first",
	"limit": "waits for another to end", "permits": "waits for a permit", "consumer": "waits to be taken",
}

// inside are the words of waits that a merchant's people have nothing to do with.
var inside = map[string]bool{"rate": true, "sealed": true, "missing": true, "limit": true, "permits": true, "consumer": true}

func (b *builder) waiting() string {
	if b.Masked && inside[b.WaitingFor] {
		return "waits for its turn"
	}
	return waits[b.WaitingFor]
}

// short are the same for a list.
var short = map[string]string{
	"due": "its time", "rung": "next rung", "paused": "paused", "breaker": "breaker", "retry_after": "Retry-After", "rate": "its rate",
	"sealed": "a key", "missing": "no endpoint", "egress": "our network", "order": "others first", "limit": "its limit", "permits": "a permit", "consumer": "to be taken",
}

// Why says in a word or two how a delivery stands.
func Why(d wire.Delivery, masked bool) string {
	switch d.Status {
	case "delivered":
		if d.Attempts <= 1 {
			return "at once"
		}
		return fmt.Sprintf("at attempt %d", d.Attempts)
	case "dead":
		return d.DeadReason
	case "cancelled", "in_flight":
		return ""
	}
	if masked && inside[d.WaitingFor] {
		return "its turn"
	}
	return short[d.WaitingFor]
}
