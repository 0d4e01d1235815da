package redisqtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// Lanes of endpoints.
const (
	EpOne dispatcher.Lane = "ep_000000001"
	EpTwo dispatcher.Lane = "ep_000000002"
)

// LimitsChange sets a part of a lane's limits.
type LimitsChange func(l *dispatcher.LaneLimits)

// Mode sets the mode of a lane.
func Mode(h dispatcher.LaneMode) LimitsChange { return func(l *dispatcher.LaneLimits) { l.Mode = h } }

// By sets the name of the person that paused a lane.
func By(name string) LimitsChange { return func(l *dispatcher.LaneLimits) { l.By = name } }

// Most sets the largest number of attempts in flight of a lane.
func Most(n int) LimitsChange { return func(l *dispatcher.LaneLimits) { l.MaxInFlight = n } }

// Every sets a rate, by the time between two attempts.
func Every(d time.Duration) LimitsChange { return func(l *dispatcher.LaneLimits) { l.Interval = d } }

// Ordered makes a lane an ordered one.
func Ordered(l *dispatcher.LaneLimits) { l.Ordered = true }

// Pulled makes a lane one whose deliveries are taken.
func Pulled(l *dispatcher.LaneLimits) { l.Pull = true }

// Take takes deliveries from lanes, as an instance does for its own handlers.
func (r *Rig) Take(by string, most int, lanes ...dispatcher.Lane) dispatcher.Taken {
	r.Helper()
	taken, hints, err := r.Queue.Take(r.Ctx, by, dispatcher.Take{Lanes: lanes, Most: most, Bytes: 1 << 20})
	require.NoError(r, err)
	r.MustBeCurrent(hints)
	return taken
}

// MustTake takes from a lane and fails the case unless it gets exactly these
// deliveries.
func (r *Rig) MustTake(by string, lane dispatcher.Lane, want ...dispatcher.DeliveryID) []dispatcher.Claimed {
	r.Helper()
	taken := r.Take(by, dispatcher.TakeMost, lane)
	require.ElementsMatch(r, want, ClaimedIDs(taken.Claimed))
	return taken.Claimed
}

// Limit sets new limits of a lane. A lane of an endpoint gets its next version.
// It returns the counts of the lane before.
func (r *Rig) Limit(lane dispatcher.Lane, changes ...LimitsChange) dispatcher.LaneCount {
	r.Helper()
	count, _ := r.LimitAs(lane, r.NewLimits(lane, changes...), false)
	return count
}

// NewLimits returns the next limits of a lane.
func (r *Rig) NewLimits(lane dispatcher.Lane, changes ...LimitsChange) dispatcher.LaneLimits {
	var l dispatcher.LaneLimits
	if lane.IsEndpoint() {
		r.Versions[lane]++
		l.Version = r.Versions[lane]
	}
	for _, change := range changes {
		change(&l)
	}
	return l
}

// LimitAs sets the limits of a lane. clear also resumes the lane.
func (r *Rig) LimitAs(lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) (dispatcher.LaneCount, []Hint) {
	r.Helper()
	count, hints, err := r.Queue.Limit(r.Ctx, One, lane, l, clear)
	require.NoError(r, err)
	r.MustBeCurrent(hints)
	return count, hints
}

// Resume resumes a lane without an endpoint and closes its breaker.
func (r *Rig) Resume(lane dispatcher.Lane) []Hint {
	r.Helper()
	_, hints := r.LimitAs(lane, dispatcher.LaneLimits{}, true)
	return hints
}

// LaneState reads one lane as callers do.
func (r *Rig) LaneState(lane dispatcher.Lane) dispatcher.LaneState {
	r.Helper()
	got, err := r.Queue.LaneStates(r.Ctx, []dispatcher.Lane{lane})
	require.NoError(r, err)
	require.Len(r, got, 1)
	require.Equal(r, lane, got[0].Lane)
	return got[0]
}

// Keyed sets a message's ordering key.
func Keyed(key string) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.OrderingKey = key }
}

// PublishKeyed publishes messages of one ordering key to a lane, one after
// another.
func (r *Rig) PublishKeyed(lane dispatcher.Lane, key string, ids ...string) {
	r.Helper()
	for _, id := range ids {
		got := r.Schedule(r.Entry(id, To(lane), Keyed(key)))
		require.Equal(r, dispatcher.Accepted, got[0].Result, id)
	}
}

// Fan makes the lanes of an entry a fan-out.
func Fan(e dispatcher.Entry) dispatcher.Entry {
	e.Fan = true
	return e
}

// SettleBreakers settles outcomes and returns the breakers that opened and closed.
func (r *Rig) SettleBreakers(by string, batch ...dispatcher.Settlement) (opened []dispatcher.Opening, closed []dispatcher.Lane) {
	r.Helper()
	_, hints, err := r.Queue.Settle(r.Ctx, by, batch)
	require.NoError(r, err)
	for _, h := range hints {
		opened, closed = append(opened, h.Opened...), append(closed, h.Closed...)
	}
	return opened, closed
}

// MustLie fails the case unless each of these messages is in this place of the
// lane.
func (r *Rig) MustLie(place Place, lane dispatcher.Lane, messages ...string) {
	r.Helper()
	state := r.State()
	for _, id := range IDs(lane, messages...) {
		require.Equal(r, place, state.At(id).Place, "%s", id)
	}
}

// Deliver claims one delivery, which must be this one, and settles it as a
// success.
func (r *Rig) Deliver(id dispatcher.DeliveryID) {
	r.Helper()
	r.MustSettle(One, Success(r.MustClaim(One, id)[0]))
}
