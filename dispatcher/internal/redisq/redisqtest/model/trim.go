package model

import (
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The steps that forget ended work.

func (m *model) doTrim() {
	m.Helper()
	m.trimAs(pick(m.rng, redisqtest.KeepAll, redisqtest.KeepDigests, redisqtest.KeepNothing,
		dispatcher.Keep{Finished: 24 * time.Hour, FinishedMax: 3, SeenMax: 2, Dead: 48 * time.Hour, DeadMax: 2},
		dispatcher.Keep{Finished: time.Minute, FinishedMax: 5, SeenMax: 5, Dead: time.Hour, DeadMax: 5}),
		m.trouble.full)
}

// trimAs trims until there is no more, or once if a fault happens. The store
// chooses within the rules which deliveries go first. So the model follows it
// and checks the rules.
func (m *model) trimAs(keep dispatcher.Keep, room bool) {
	m.Helper()
	m.logf("trim %+v, for room %v", keep, room)
	m.calls("trim")
	var got redisqtest.Trimmed
	answered := true
	if m.trouble == (trouble{}) {
		got = m.Trim(keep)
	} else {
		var err error
		got, err = m.Queue.Trim(m.Ctx, m.instances[0], m.All(), keep, room)
		answered = m.went(err)
	}
	states := m.States()
	state := redisqtest.Merged(states)
	finished, dead := 0, 0
	gone, cut := map[recordKey]goneLanes{}, map[cutPlace]bool{}
	for _, id := range redisqtest.SortedIDs(m.deliveries) {
		d := m.deliveries[id]
		if len(state.Found[id]) > 0 {
			continue
		}
		require.False(m, d.Place.Waits(), "%s was trimmed from %s", id, d.Place)
		if d.Place == redisqtest.PlaceDead {
			dead++
		} else {
			finished++
		}
		if !m.forget(id, keep, room, states, gone) {
			cut[cutPlace{m.Partition(id.Lane), d.Place == redisqtest.PlaceDead}] = true
		}
	}
	m.checkCut(cut, keep, room, states)
	for key, lanes := range gone {
		m.forgetMessage(key, lanes, keep, states[key.partition])
	}
	if answered {
		require.Equal(m, finished, got.Finished)
		require.Equal(m, dead, got.Dead)
	}
	if m.trouble == (trouble{}) {
		m.checkKept(keep, states)
	}
	for key, msg := range m.messages {
		if _, ok := states[key.partition].Messages[key.id]; !msg.whole && !ok {
			delete(m.messages, key)
		}
	}
	m.MustBeCurrent(got.Hints)
	lanes := m.trimLanes()
	require.True(m, !answered || lanes == got.Lanes, "%d lanes went, should be %d", got.Lanes, lanes)
}

// trimLanes forgets the unused lanes and returns their number.
func (m *model) trimLanes() (n int) {
	for lane, since := range m.noted {
		if !m.came(lane) {
			continue
		}
		if _, limited := m.limits[lane]; !limited && m.lanes[lane] == nil && !m.keeps(lane) && since > m.ms()-time.Hour.Milliseconds() {
			if m.State().Lanes[lane].Noted == 0 { // its last delivery was removed, and its state was gone before
				n++
				delete(m.noted, lane)
				delete(m.leads, lane)
			}
			continue
		}
		if since > m.ms()-time.Hour.Milliseconds() {
			continue
		}
		m.noted[lane] = m.ms()
		l, limited := m.limits[lane]
		if m.inFlight(lane)+m.waitingIn(lane) == 0 && (!limited || l.Mode == dispatcher.LaneDeleted) {
			delete(m.lanes, lane)
			delete(m.limits, lane)
			if !m.keeps(lane) {
				n++
				delete(m.noted, lane)
				delete(m.leads, lane)
			}
		}
	}
	return n
}

// keeps reports whether a lane has a delivery, which may have ended.
func (m *model) keeps(lane dispatcher.Lane) bool {
	for id := range m.deliveries {
		if id.Lane == lane {
			return true
		}
	}
	return false
}

// goneLanes has the reasons why a trim removed the deliveries of a message. An
// old delivery or a dead one leaves no trace. A cut delivery leaves the digest.
type goneLanes struct{ cut, traceless bool }

// cutPlace is a kind of ended work in a partition.
type cutPlace struct {
	partition int
	dead      bool
}

// checkCut checks that a trim cut only deliveries beyond the limit. After a cut
// before their age, the allowed number must be left. A trim for room may cut
// more, but no dead ones.
func (m *model) checkCut(cut map[cutPlace]bool, keep dispatcher.Keep, room bool, states []redisqtest.State) {
	m.Helper()
	for place := range cut {
		left, most := 0, keep.FinishedMax
		if place.dead {
			most = keep.DeadMax
		} else if room {
			continue
		}
		for _, found := range states[place.partition].Found {
			if at := found[0].Place; !at.Waits() && (at == redisqtest.PlaceDead) == place.dead {
				left++
			}
		}
		require.GreaterOrEqual(m, left, most, "partition %d forgot more than it had to, dead %v", place.partition, place.dead)
	}
}

// forget removes a delivery from the model and reports whether it was old. A
// young one may go only if no older one stays.
func (m *model) forget(id dispatcher.DeliveryID, keep dispatcher.Keep, room bool, states []redisqtest.State, gone map[recordKey]goneLanes) (old bool) {
	m.Helper()
	d, young := m.deliveries[id], m.young(id)
	m.moved(id, d.Place, nowhere)
	delete(m.deliveries, id)
	age := keep.Finished
	if d.Place == redisqtest.PlaceDead {
		age = keep.Dead
	}
	oldest := m.ms() - age.Milliseconds() // of those that a trim leaves
	old = d.At <= oldest
	if !old {
		for other, found := range states[m.Partition(id.Lane)].Found {
			if found[0].Place == d.Place && !(room && m.young(other)) {
				require.GreaterOrEqual(m, found[0].At, d.At, "%s was trimmed, and the older %s was not", id, other)
			}
		}
	}
	require.False(m, room && young && !old && d.Place != redisqtest.PlaceDead, "%s was trimmed for room", id)
	key := recordKey{m.Partition(id.Lane), id.Message}
	m.messages[key].lanes[id.Lane] = false
	lanes := gone[key]
	if d.Place == redisqtest.PlaceDead || old {
		lanes.traceless = true
	}
	if d.Place != redisqtest.PlaceDead && d.At >= oldest { // At has no parts of a ms, by which an end may be later
		lanes.cut = true
	}
	gone[key] = lanes
	return old
}

// young reports whether a trim for room must keep a delivery that has ended.
func (m *model) young(id dispatcher.DeliveryID) bool {
	after := m.ms() - redisqtest.RoomLeaves.Milliseconds()
	msg := m.messages[recordKey{m.Partition(id.Lane), id.Message}]
	d := m.deliveries[id]
	return msg.message.CreatedAt.UnixMilli() > after && (d == nil || d.At > after)
}

// forgetMessage removes a message from the model if that was its last lane.
func (m *model) forgetMessage(key recordKey, gone goneLanes, keep dispatcher.Keep, s redisqtest.State) {
	m.Helper()
	msg := m.messages[key]
	if slices.Contains(slices.Collect(maps.Values(msg.lanes)), true) {
		return
	}
	if _, seen := s.Seen[key.id]; seen {
		require.True(m, gone.cut, "message %s leaves a digest past its age", key.id)
		msg.whole = false
		return
	}
	if !gone.traceless {
		require.GreaterOrEqual(m, len(s.Seen), keep.SeenMax, "message %s was cut, and not even its digest is left", key.id)
	}
	delete(m.messages, key)
}

// checkKept checks that nothing is left beyond its age or its limit, and that
// nothing else was removed.
func (m *model) checkKept(keep dispatcher.Keep, states []redisqtest.State) {
	m.Helper()
	for n, s := range states {
		finished, dead := 0, 0
		for id, found := range s.Found {
			age := keep.Finished
			switch found[0].Place {
			case redisqtest.PlaceDone, redisqtest.PlaceCancelled:
				finished++
			case redisqtest.PlaceDead:
				dead++
				age = keep.Dead
			default:
				continue
			}
			require.GreaterOrEqual(m, found[0].At, m.ms()-age.Milliseconds(), "%s is past its age", id) // At has no parts of a ms, by which an end may be later
		}
		require.LessOrEqual(m, finished, keep.FinishedMax, "partition %d", n)
		require.LessOrEqual(m, dead, keep.DeadMax, "partition %d", n)
		require.LessOrEqual(m, len(s.Seen), keep.SeenMax, "partition %d", n)
		for id, at := range s.Seen {
			require.Greater(m, at, m.ms()-keep.Finished.Milliseconds(), "%s is known past its age", id)
		}
	}
}
