package redisqtest

import (
	"github.com/hookladder/hookladder/dispatcher"
)

// The lanes of a publish by the states of their deliveries, in their order.

// Leased returns the lanes whose delivery is leased by the publishing instance.
func Leased(s dispatcher.ScheduleResult) []dispatcher.Lane {
	return placed(s, func(p dispatcher.Placed) bool { return p.Status == dispatcher.StatusInFlight })
}

// Ready returns the lanes whose delivery is ready for any instance.
func Ready(s dispatcher.ScheduleResult) []dispatcher.Lane {
	return placed(s, func(p dispatcher.Placed) bool { return p.Status == dispatcher.StatusReady })
}

// Behind returns the lanes whose delivery waits for the one before it.
func Behind(s dispatcher.ScheduleResult) []dispatcher.Lane {
	return placed(s, func(p dispatcher.Placed) bool { return p.Status == dispatcher.StatusScheduled && p.Due.IsZero() })
}

// Cancelled returns the lanes whose delivery was cancelled at once.
func Cancelled(s dispatcher.ScheduleResult) []dispatcher.Lane {
	return placed(s, func(p dispatcher.Placed) bool { return p.Status == dispatcher.StatusCancelled })
}

// Dead returns the lanes whose delivery died at once, with the reasons.
func Dead(s dispatcher.ScheduleResult) map[dispatcher.Lane]dispatcher.DeadReason {
	dead := map[dispatcher.Lane]dispatcher.DeadReason{}
	for _, p := range s.Placed {
		if p.Status == dispatcher.StatusDead {
			dead[p.Lane] = p.Reason
		}
	}
	return dead
}

// Versions returns the version that each endpoint's lane keeps.
func Versions(s dispatcher.ScheduleResult) map[dispatcher.Lane]int64 {
	versions := map[dispatcher.Lane]int64{}
	for _, p := range s.Placed {
		if p.Lane.IsEndpoint() || p.Version != 0 {
			versions[p.Lane] = p.Version
		}
	}
	return versions
}

func placed(s dispatcher.ScheduleResult, is func(dispatcher.Placed) bool) (lanes []dispatcher.Lane) {
	for _, p := range s.Placed {
		if is(p) {
			lanes = append(lanes, p.Lane)
		}
	}
	return lanes
}
