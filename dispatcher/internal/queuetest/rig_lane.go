package queuetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// Lanes of endpoints.
const (
	epOne dispatcher.Lane = "ep_000000001"
	epTwo dispatcher.Lane = "ep_000000002"
)

// limitsChange sets a part of a lane's limits.
type limitsChange func(l *dispatcher.LaneLimits)

func held(h dispatcher.Held) limitsChange { return func(l *dispatcher.LaneLimits) { l.Held = h } }

// by sets who holds a lane.
func by(name string) limitsChange { return func(l *dispatcher.LaneLimits) { l.By = name } }

func most(n int) limitsChange { return func(l *dispatcher.LaneLimits) { l.MaxInFlight = n } }

// every sets a rate, by the time between two attempts.
func every(d time.Duration) limitsChange { return func(l *dispatcher.LaneLimits) { l.Interval = d } }

func ordered(l *dispatcher.LaneLimits) { l.Ordered = true }

// limit gives a lane new limits, an endpoint's lane with its next version. It
// answers the counts of the lane before.
func (r *rig) limit(lane dispatcher.Lane, changes ...limitsChange) dispatcher.LaneCount {
	r.Helper()
	count, _ := r.limitAs(lane, r.newLimits(lane, changes...), false)
	return count
}

// newLimits are the next limits of a lane.
func (r *rig) newLimits(lane dispatcher.Lane, changes ...limitsChange) dispatcher.LaneLimits {
	var l dispatcher.LaneLimits
	if lane.IsEndpoint() {
		r.versions[lane]++
		l.Version = r.versions[lane]
	}
	for _, change := range changes {
		change(&l)
	}
	return l
}

func (r *rig) limitAs(lane dispatcher.Lane, l dispatcher.LaneLimits, clear bool) (dispatcher.LaneCount, []Hint) {
	r.Helper()
	count, hints, err := r.Queue.Limit(r.ctx, one, lane, l, clear)
	require.NoError(r, err)
	r.mustBeCurrent(hints)
	return count, hints
}

// resume resumes a lane without an endpoint and closes its breaker.
func (r *rig) resume(lane dispatcher.Lane) []Hint {
	r.Helper()
	_, hints := r.limitAs(lane, dispatcher.LaneLimits{}, true)
	return hints
}

// laneState reads one lane as callers do.
func (r *rig) laneState(lane dispatcher.Lane) dispatcher.LaneState {
	r.Helper()
	got, err := r.Queue.LaneStates(r.ctx, []dispatcher.Lane{lane})
	require.NoError(r, err)
	require.Len(r, got, 1)
	require.Equal(r, lane, got[0].Lane)
	return got[0]
}

// keyed sets a message's ordering key.
func keyed(key string) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.OrderingKey = key }
}

// publishKeyed puts messages of one ordering key into a lane, one after another.
func (r *rig) publishKeyed(lane dispatcher.Lane, key string, ids ...string) {
	r.Helper()
	for _, id := range ids {
		got := r.schedule(r.entry(id, to(lane), keyed(key)))
		require.Equal(r, dispatcher.Accepted, got[0].Result, id)
	}
}

// fan makes the lanes of an entry a fan-out.
func fan(e dispatcher.Entry) dispatcher.Entry {
	e.Fan = true
	return e
}

// settleTold records outcomes and answers which breakers opened and closed.
func (r *rig) settleTold(by string, batch ...dispatcher.Settlement) (opened []dispatcher.Opening, closed []dispatcher.Lane) {
	r.Helper()
	_, hints, err := r.Queue.Settle(r.ctx, by, batch)
	require.NoError(r, err)
	for _, h := range hints {
		opened, closed = append(opened, h.Opened...), append(closed, h.Closed...)
	}
	return opened, closed
}

// mustLie fails the case unless each of these messages is in this place of the
// lane.
func (r *rig) mustLie(place Place, lane dispatcher.Lane, messages ...string) {
	r.Helper()
	state := r.State()
	for _, id := range ids(lane, messages...) {
		require.Equal(r, place, state.At(id).Place, "%s", id)
	}
}

// deliver claims one delivery, which must be this one, and settles it as a
// success.
func (r *rig) deliver(id dispatcher.DeliveryID) {
	r.Helper()
	r.mustSettle(one, success(r.mustClaim(one, id)[0]))
}
