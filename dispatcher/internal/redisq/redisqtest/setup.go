package redisqtest

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Setup is the configuration of the store that a case needs.
type Setup struct {
	Partitions      int
	LaneMaxInFlight int           // most deliveries of one lane in flight, unless its limits set another number
	Permits         int           // the pool of each instance that a case claims for
	Total           int           // the pools of all instances, also of others; 0: no more than Permits
	Breaker         int           // blamed failures in a row that open a breaker; 0: a breaker never opens
	BreakerWait     time.Duration // the time until an open breaker lets a probe through
	MaxWaiting      int           // most deliveries that may wait in one lane; 0: no limit
	Broken          bool          // the test breaks the store, which may log errors
}

// total returns the number of permits in the weights of lanes.
func (s Setup) total() int { return max(s.Total, s.Permits) }

// NewLane is the class of a lane until its first attempt ends. HungLane is the class of
// a lane that does not respond.
const (
	NewLane  = 3
	HungLane = 8
)

// Weight returns the weight of a lane, which is its part of all permits. It depends on
// the lane's class and its deliveries in flight. A class counts as one in flight
// for each 128 permits. A new lane with an attempt under way counts as hung.
func (s Setup) Weight(slow, inFlight int) int {
	if slow == NewLane && inFlight > 0 {
		slow = HungLane
	}
	return min(2048*(inFlight+slow*s.total()/128)/s.total(), 4095)
}

// Light reports whether a lane of this weight may get a permit of an instance with this
// number of free permits.
func (s Setup) Light(weight, free int) bool {
	return free > 0 && (free == s.Permits || weight < max(1, 2048*free/s.Permits))
}

// Limit returns the highest number of deliveries of a lane in flight.
func (s Setup) Limit(l dispatcher.LaneLimits) int {
	if l.MaxInFlight > 0 {
		return l.MaxInFlight
	}
	return s.LaneMaxInFlight
}
