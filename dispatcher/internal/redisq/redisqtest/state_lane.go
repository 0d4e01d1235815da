package redisqtest

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// LaneState is a store's record of a lane.
type LaneState struct {
	InFlight int
	Waiting  int

	Known  bool // it has a state of its own: the next seven fields
	Window int
	Fails  int   // blamed failures in a row
	Opened int   // times that its breaker opened in a row
	Until  int64 // ms: no attempt begins before; 0: no such time
	Tat    int64 // µs: the time when the rate allows the next attempt; 0: no attempt was made under a rate
	Keys   int   // sets that are not empty
	Slow   int

	Failing int64 // ms: the time of its first failure; 0: it does not fail

	Egress     int64 // ms: the start of its wait for the instances' own network; 0: it does not wait
	EgressWait int64 // ms: its last backoff for that network

	Limited bool // it has a text of limits
	Limits  dispatcher.LaneLimits

	Listed bool  // it is among the lanes that may be claimed from
	Weight int   // the weight in its place there
	Turn   int64 // ms; the earlier comes first if weights are equal

	Takeable bool // it is among the lanes that may be taken from

	Parked int64 // ms: the time that it waits for; 0: it is not parked
	Noted  int64 // ms: the time when it was noted for trimming; 0: it is not noted

	Leads string // origin and tenant of a bare URL's messages; empty: it has none
}

// Ended reports whether the deliveries of the lane must end.
func (l LaneState) Ended() bool {
	return l.Limits.Mode == dispatcher.LaneDisabled || l.Limits.Mode == dispatcher.LaneDeleted
}

// Slots returns the number of deliveries that the lane may have in flight now.
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

// ByClock returns the lane as a store reads it at a time in µs. A time very far ahead
// counts as now, because only another clock can have set it.
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

// opens returns the time in ms when the lane may be claimed from, by its receiver's
// pause, its breaker and its rate.
func (l LaneState) opens() int64 {
	if l.Limits.Interval == 0 {
		return l.Until
	}
	return max(l.Until, (l.Tat+999)/1000)
}

// Tokens returns the number of attempts that the lane's rate allows at a time in µs. It
// returns a large number if there is no rate.
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

// CountedFrom returns the time in µs from which tokens count. A lane in use may catch up
// on a burst. An idle lane starts again.
func CountedFrom(tat, now int64) int64 {
	if tat < now-idle.Microseconds() {
		return now
	}
	return max(tat, now-burst.Microseconds())
}

// idle is the time after which an unused lane is idle.
const idle = time.Second

// burst is the part of an unused rate that is kept. It covers a timer that is late.
const burst = 50 * time.Millisecond
