package stored

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// LaneState is what a store keeps of a lane.
type LaneState struct {
	InFlight int
	Waiting  int

	Known  bool // it has a state of its own: the next seven fields
	Window int
	Fails  int   // blamed failures in a row
	Opened int   // how often its breaker opened in a row
	Until  int64 // ms: no attempt begins before; 0: no such time
	Tat    int64 // µs: the time when the rate allows the next attempt; 0: none was made under a rate
	Keys   int   // sets that are not empty
	Slow   int

	Failing int64 // ms: since when it fails; 0: it does not

	Egress     int64 // ms: since when it waits for the instances' own network; 0: it does not
	EgressWait int64 // ms: its last wait for that

	Limited bool // it has a text of limits
	Limits  dispatcher.LaneLimits

	Listed bool  // it is among the lanes that may be claimed from
	Weight int   // the weight in its place there
	Turn   int64 // ms; of equal weight the earlier comes first

	Takeable bool // it is among the lanes that may be taken from

	Parked int64 // ms: the time that it waits for; 0: it is not parked
	Noted  int64 // ms: the time when it was noted for trimming; 0: it is not

	Leads string // origin and tenant of a bare URL's messages; empty: it has none
}

// Ended reports whether the deliveries of the lane are to end.
func (l LaneState) Ended() bool {
	return l.Limits.Held == dispatcher.HeldDisabled || l.Limits.Held == dispatcher.HeldDeleted
}

// Slots is how many deliveries the lane may have in flight now.
func (l LaneState) Slots(setup Setup) int {
	limit := setup.Limit(l.Limits)
	switch {
	case l.Limits.Ordered:
		return 1
	case l.Limits.Pull:
		return limit
	case l.Opened > 0 || l.Egress > 0:
		return 1
	case !l.Known:
		return min(2, limit)
	}
	return min(l.Window, limit)
}

// ByClock is the lane as read at a time in µs. No attempt can set a time very
// far ahead. So such a time came from another clock, and counts as now.
func (l LaneState) ByClock(now int64) LaneState {
	interval := l.Limits.Interval
	if interval > 0 && l.Tat > now+(9*interval+burst+time.Second).Microseconds() {
		l.Tat = now
	}
	if l.Until > now/1000+(24*time.Hour+time.Minute).Milliseconds() {
		l.Until = now / 1000
	}
	return l
}

// opens is the ms from which the lane may be claimed from, by its receiver's
// pause, its breaker and its rate.
func (l LaneState) opens() int64 {
	if l.Limits.Interval == 0 {
		return l.Until
	}
	return max(l.Until, (l.Tat+999)/1000)
}

// Tokens is how many attempts the lane's rate allows at a time in µs. It is a
// large number without a rate.
func (l LaneState) Tokens(now int64) int {
	interval := l.Limits.Interval.Microseconds()
	switch {
	case interval == 0:
		return 1 << 20
	case l.Tat > now:
		return 0
	}
	return int((now-CountedFrom(l.Tat, now))/interval) + 1
}

// CountedFrom is the time in µs from which tokens count. A lane in use may make
// up for a burst. An idle one begins anew.
func CountedFrom(tat, now int64) int64 {
	if tat < now-idle.Microseconds() {
		return now
	}
	return max(tat, now-burst.Microseconds())
}

// idle is how long a lane must be unused for that.
const idle = time.Second

// burst is how much of an unused rate is kept: as much as a timer may be late.
const burst = 50 * time.Millisecond
