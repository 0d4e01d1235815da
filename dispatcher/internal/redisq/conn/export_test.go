package conn

import "context"

// NotDurable judges how many have a write.
var NotDurable = notDurable

// NodeBreaker keeps calls away from masters.
type NodeBreaker = nodeBreaker

// NewNodeBreaker makes one that has not tripped.
var NewNodeBreaker = newNodeBreaker

// Check is the error of a call to a master.
func (b *nodeBreaker) Check(addr string, durable bool) error { return b.check(addr, durable) }

// Trip trips for a master: for all calls, or for durable ones only.
func (b *nodeBreaker) Trip(addr string, weak bool, why error, probe func(ctx context.Context) bool) {
	at := tripped{addr, silentMaster}
	if weak {
		at.reason = weakMaster
	}
	b.trip(at, why, probe)
}

// Finish ends all probes.
func (b *nodeBreaker) Finish() { b.finish() }
