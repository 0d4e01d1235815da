// Package queuetest is the conformance suite that every store behind
// dispatcher.Queue must pass. It has readable cases for each method and rule. A
// random test compares the store with a model after every step.
//
// The cases need to see the state that the store keeps, and not only its
// answers. So a store brings a Fixture that reads all of it as States. Time is
// the test's: nothing here sleeps.
package queuetest

import (
	"context"
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
	Queue Queue
	// Open connects to the same store once more, as another process would.
	Open func() Queue
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
	Queue Queue
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

// Hint says what a partition has to do, as of Now by its own clock.
type Hint struct {
	Partition int
	Now       time.Time
	Due       time.Time            // the earliest time at which something becomes ready; zero: nothing waits for a time
	Weight    int                  // of the lightest lane that may be claimed from; -1: there is none
	Ended     int                  // deliveries that a claim ended instead of leasing them
	Lost      int                  // deliveries that a claim dropped because their message was gone
	Placed    int                  // lanes that a claim placed anew, since instances came or went
	Opened    []dispatcher.Opening // lanes whose breaker this call opened, or opened again
	Closed    []dispatcher.Lane    // lanes whose breaker it closed
	Dead      []dispatcher.Death   // deliveries that died of this call
}

// Queue is a dispatcher.Queue as the suite uses it. The suite says which partitions
// a call asks. A call also answers the hints that the store took in.
type Queue interface {
	Schedule(ctx context.Context, by string, free, lease int, batch []dispatcher.Entry) ([]dispatcher.ScheduleResult, []Hint, error)
	Move(ctx context.Context, by string, in []int) ([]Hint, error)
	Claim(ctx context.Context, by string, in []int, wanted, free int) ([]dispatcher.Claimed, []Hint, error)
	Settle(ctx context.Context, by string, batch []dispatcher.Settlement) ([]dispatcher.Settled, []Hint, error)
	Reap(ctx context.Context, by, dead string) (taken int, hints []Hint, err error)
	Trim(ctx context.Context, by string, in []int, keep dispatcher.Keep, room bool) (Trimmed, error)
	Cancel(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []Hint, error)
	Retry(ctx context.Context, by string, ids []dispatcher.DeliveryID, delivered bool) ([]dispatcher.Change, []Hint, error)
	Limit(ctx context.Context, by string, lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) (dispatcher.LaneCount, []Hint, error)
	Sweep(ctx context.Context, by string, lane dispatcher.Lane, cursor string) (ended int, next string, hints []Hint, err error)
	ReadHints(ctx context.Context, in []int) ([]Hint, error)
	Watch(ctx context.Context, by string, to Subscriber) error
	HeldLanesIn(ctx context.Context, partition int, cursor string) ([]dispatcher.HeldLane, string, error)
	LaneNamesIn(ctx context.Context, partition int, cursor string) ([]dispatcher.LaneName, string, error)
	Partitions() int

	// As they are.
	Join(ctx context.Context, by string, i dispatcher.Instance) error
	Beat(ctx context.Context, by string, number int64) (fresh bool, all map[string]int64, err error)
	Leave(ctx context.Context, by string) error
	Orphans(ctx context.Context) ([]string, error)
	Leases(ctx context.Context, by string) ([]dispatcher.Lease, error)
	Body(ctx context.Context, id dispatcher.DeliveryID, a dispatcher.Apart) ([]byte, error)
	ForgetLane(ctx context.Context, by string, copied dispatcher.LaneVersion, age time.Duration) (bool, error)
	LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error)
	Lanes(ctx context.Context, limit int, cursor string) ([]dispatcher.LaneState, string, error)
	PausedLanes(ctx context.Context, most int) ([]dispatcher.LaneState, int, error)
	Read(ctx context.Context, id string) (dispatcher.MessageView, error)
	Standing(ctx context.Context, batch []dispatcher.Entry) ([]dispatcher.Standing, error)
	Known(ctx context.Context, ids []string) ([]bool, error)
	Kept(ctx context.Context, batch []dispatcher.Entry) ([]*dispatcher.Message, error)
	List(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
	Stats(ctx context.Context) (dispatcher.Stats, error)
	Polls() bool
	Nodes() int
	Store(ctx context.Context) (dispatcher.StoreInfo, error)
	Ping(ctx context.Context) error
}

// Trimmed is what a Trim answers, with the hints.
type Trimmed struct {
	dispatcher.Trimmed
	Hints []Hint // of partitions in which a lane was placed anew, since another clock had told its time
}

// Subscriber is told besides what other instances say of partitions.
type Subscriber struct {
	dispatcher.Subscriber
	OnHint func(Hint)
}
