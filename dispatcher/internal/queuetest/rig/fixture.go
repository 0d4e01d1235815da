package rig

import (
	"testing"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// Fixture is an empty store with a way to read its state.
type Fixture struct {
	Queue Queue
	// Open connects to the same store once more, as another process would.
	Open func() Queue
	// SetClock sets the time of every partition, in steps of a microsecond.
	SetClock func(now time.Time)
	// States reads everything that is stored, partition by partition.
	States func() []stored.State
	// Lose deletes a message's record and nothing else, as a careless
	// administrator could.
	Lose func(message string)
	// Partition is the partition of a lane.
	Partition func(lane dispatcher.Lane) int

	// Cut connects once more, over a connection that breaks after so many
	// scripts. The answers of the last scripts arrive or are lost. It ends with
	// the case. It is nil where only the model is run, and nothing is to break.
	Cut func(scripts int, answered bool) Cut
	// Copy copies all that is stored but the clock. It answers a function that
	// brings the copy back, as often as wanted. It is nil where the store
	// can't.
	Copy func() (restore func())
	// Fill makes the store's memory full, or ends that. It is nil where the
	// store has no limit.
	Fill func(full bool)
}

// Cut is a connection to a store that breaks.
type Cut struct {
	Queue Queue
	// Ran reports whether a script that may change something ran in a
	// partition.
	Ran func(partition int) bool
}

// OpenFunc makes the empty store of one case, which ends with the case.
type OpenFunc func(t testing.TB, s stored.Setup) Fixture

// Case is one rule. The rig's store is empty at its begin, and must be in
// order at its end.
type Case struct {
	Name  string
	Setup stored.Setup // zero fields: 1 partition, windows up to 128, 128 permits (1,024 over several partitions), no breaker, no limit of waiting deliveries
	Run   func(r *Rig)
}
