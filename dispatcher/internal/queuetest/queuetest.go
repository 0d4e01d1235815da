// Package queuetest is the conformance suite that every store behind
// dispatcher.Queue must pass: readable cases for each method and rule, and a
// random test that compares the store with a model after every step.
//
// The cases need to see what the store really keeps, not only what it answers,
// so a store brings a Fixture that reads all of it as States. Time is the
// test's: nothing here sleeps.
package queuetest

import (
	"testing"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Setup is what a case asks of its store.
type Setup struct {
	Partitions      int
	LaneMaxInFlight int           // most deliveries in flight of one lane, unless its limits say otherwise
	Permits         int           // of each instance that a case claims for
	Total           int           // of all instances, further ones among them; 0: no more than Permits
	Breaker         int           // blamed failures in a row that open a lane; 0: none do
	BreakerWait     time.Duration // how long it is left alone when it opens
	MaxWaiting      int           // most deliveries that may wait in one lane; 0: no limit
}

// total is the number of permits by which lanes are weighed.
func (s Setup) total() int { return max(s.Total, s.Permits) }

// weight is how heavy a lane of a class is with so many in flight: its part of
// all permits. A class counts as one in flight for each 128 of them.
func (s Setup) weight(slow, inFlight int) int {
	return min(2048*(inFlight+slow*s.total()/128)/s.total(), 4095)
}

// light reports whether a lane may be given a permit of an instance with so
// many free.
func (s Setup) light(weight, free int) bool {
	return free > 0 && (free == s.Permits || weight < max(1, 2048*free/s.Permits))
}

// limit is how many deliveries of a lane may be in flight at best.
func (s Setup) limit(l dispatcher.LaneLimits) int {
	if l.MaxInFlight > 0 {
		return l.MaxInFlight
	}
	return s.LaneMaxInFlight
}

// Fixture is an empty store and the means to look behind its interface.
type Fixture struct {
	Queue dispatcher.Queue
	// Open connects to the same store once more, as another process would.
	Open func() dispatcher.Queue
	// SetClock sets the time of every partition, in steps of a microsecond.
	SetClock func(now time.Time)
	// States reads everything that is stored, partition by partition.
	States func() []State
	// Lose deletes a message's record and nothing else, as a careless hand would.
	Lose func(message string)
	// Partition is the one that a lane lies in.
	Partition func(lane dispatcher.Lane) int

	// Cut connects once more, over a line that breaks when so many scripts came
	// through it: the answers to the last of them are heard, or are not. It ends
	// with the case.
	Cut func(scripts int, answered bool) Cut
	// Copy keeps all that is stored but the clock, and answers a way to bring it
	// back, as often as wanted; nil: this store can't.
	Copy func() (restore func())
	// Fill takes all memory from the store, and gives it back; nil: this store
	// has no bound.
	Fill func(full bool)
}

// Cut is a connection to a store that breaks.
type Cut struct {
	Queue dispatcher.Queue
	// Ran reports whether a script that may change something ran in a partition.
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

// testCase is one rule. The rig's store is empty when it begins, and must be in
// order when it ends.
type testCase struct {
	name  string
	setup Setup // zero fields: 1 partition, windows up to 128, 128 permits (1,024 over several partitions), no breaker, no limit of what waits
	run   func(r *rig)
}
