package redisqtest

import (
	"testing"
)

// FixtureFunc makes the empty store of one case. The store ends with the case.
type FixtureFunc func(t testing.TB, s Setup) Fixture

// Case is one rule. The rig's store is empty at the start of the case, and must
// be in order at its end.
type Case struct {
	Name  string
	Setup Setup // default of zero fields: 1 partition, windows up to 128, 128 permits (1,024 over several partitions), no breaker, no limit of waiting deliveries
	Run   func(r *Rig)
}
