// Package queuetest is the conformance suite that every store behind
// dispatcher.Queue must pass. It has readable cases for each method and rule. A
// random test compares the store with a model after every step.
//
// The cases need to see the state that the store keeps, and not only its
// answers. So a store brings a Fixture that reads all of it as States. Time is
// the test's: nothing here sleeps.
package queuetest

import (
	"testing"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Setup is the configuration of the store that a case needs.
type Setup struct {
	Partitions      int
	LaneMaxInFlight int           // most deliveries of one lane in flight, unless its limits say otherwise
	Permits         int           // of each instance that a case claims for
	Total           int           // of all instances, also of others; 0: no more than Permits
	Breaker         int           // blamed failures in a row that open a lane; 0: none do
	BreakerWait     time.Duration // how long the lane is left alone then
	MaxWaiting      int           // most deliveries that may wait in one lane; 0: no limit
}

// total is the number of permits by which lanes are weighed.
func (s Setup) total() int { return max(s.Total, s.Permits) }

// weight is the weight of a lane: its part of all permits. It depends on the
// lane's class and its deliveries in flight. A class counts as one in flight
// for each 128 permits.
func (s Setup) weight(slow, inFlight int) int {
	return min(2048*(inFlight+slow*s.total()/128)/s.total(), 4095)
}

// light reports whether a lane may be given a permit of an instance with so
// many free.
func (s Setup) light(weight, free int) bool {
	return free > 0 && (free == s.Permits || weight < max(1, 2048*free/s.Permits))
}

// limit is the highest number of deliveries of a lane in flight.
func (s Setup) limit(l dispatcher.LaneLimits) int {
	if l.MaxInFlight > 0 {
		return l.MaxInFlight
	}
	return s.LaneMaxInFlight
}

// Fixture is an empty store with a way to read its state.
type Fixture struct {
	Queue dispatcher.Queue
	// Open connects to the same store once more, as another process would.
	Open func() dispatcher.Queue
	// SetClock sets the time of every partition, in steps of a microsecond.
	SetClock func(now time.Time)
	// States reads everything that is stored, partition by partition.
	States func() []State
	// Lose deletes a message's record and nothing else, as a careless
	// administrator could.
	Lose func(message string)
	// Partition is the partition of a lane.
	Partition func(lane dispatcher.Lane) int

	// Cut connects once more, over a connection that breaks after so many
	// scripts. The answers of the last scripts arrive or are lost. It ends with
	// the case.
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
	Queue dispatcher.Queue
	// Ran reports whether a script that may change something ran in a
	// partition.
	Ran func(partition int) bool
}

// OpenFunc makes the empty store of one case, which ends with the case.
type OpenFunc func(t testing.TB, s Setup) Fixture

// Run runs every case on stores that open makes.
func Run(t *testing.T, open OpenFunc) {
	t.Helper()
	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"schedule", scheduleCases},
		{"move", moveCases},
		{"claim", claimCases},
		{"window and weight", weightCases},
		{"settle", settleCases},
		{"late settle", lateCases},
		{"leases", leaseCases},
		{"cancel", cancelCases},
		{"retry", retryCases},
		{"beside the ladder", besideCases},
		{"sent again", resentCases},
		{"reap", reapCases},
		{"trim", trimCases},
		{"trim for room", roomCases},
		{"ends", endCases},
		{"look and stats", readCases},
		{"held back", heldBackCases},
		{"list", listCases},
		{"wake", wakeCases},
		{"partitions and sizes", sizeCases},
		{"large bodies", bodyCases},
		{"limits", limitCases},
		{"held", heldCases},
		{"copies of limits", copyCases},
		{"disabled and deleted", endingCases},
		{"rate", rateCases},
		{"another clock", clockCases},
		{"breaker", breakerCases},
		{"order", orderCases},
		{"ordered lanes", orderedCases},
		{"full lanes", fullCases},
		{"fan-out", fanCases},
		{"lanes", laneCases},
		{"names of lanes", nameCases},
		{"what lanes wait for", waitCases},
		{"hints of lanes", hintCases},
		{"several at once", crowdCases},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel() // each case has a store of its own
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					r := newRig(t, open, c.setup)
					c.run(r)
					r.mustBeSound()
				})
			}
		})
	}
}

// testCase is one rule. The rig's store is empty at its begin, and must be in
// order at its end.
type testCase struct {
	name  string
	setup Setup // zero fields: 1 partition, windows up to 128, 128 permits (1,024 over several partitions), no breaker, no limit of waiting deliveries
	run   func(r *rig)
}
