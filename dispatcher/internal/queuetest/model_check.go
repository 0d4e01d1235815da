package queuetest

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// compare fails the test where the store is not what the model is, and looks
// at one message as callers do.
func (m *model) compare() {
	m.Helper()
	m.mustBeSound()
	states := m.States()
	state := merged(states)
	var f faults
	m.comparePlaces(state, &f)
	for n, s := range states {
		m.compareMessages(n, s, &f)
		m.compareHint(n, s, &f)
	}
	m.compareLanes(state, &f)
	m.compareSets(state, &f)
	require.Empty(m, f, "the store is not what the model is")
	m.released = map[dispatcher.DeliveryID]bool{}
	if ids := sortedIDs(m.deliveries); len(ids) > 0 {
		m.compareLook(pick(m.rng, ids...))
	}
}

func (m *model) comparePlaces(s State, f *faults) {
	for _, id := range sortedIDs(m.deliveries) {
		d := m.deliveries[id]
		if at := s.At(id); at != d.Found {
			f.add("%s is in %+v, should be in %+v", id, at, d.Found)
		}
		if s.Marks[id] != d.mark {
			f.add("%s is marked %q, should be %q", id, s.Marks[id], d.mark)
		}
		if s.History[id] != d.history {
			f.add("%s has %d attempts in its history, should have %d", id, s.History[id], d.history)
		}
		got, want := meaningful(s.Progress[id], d), meaningful(d.progress, d)
		if _, ok := s.Progress[id]; !ok && d.Place == PlaceDone {
			got = Progress{Attempts: 1, Status: 200} // the commonest end needs no entry
		} else if !ok && d.mark == MarkDelivered {
			got = want // nor what is about to end so
		}
		if got != want {
			f.add("%s has the progress %+v, should have %+v", id, got, want)
		}
	}
	for _, id := range s.deliveries() {
		if m.deliveries[id] == nil {
			f.add("%s is in %+v, should be nowhere", id, s.At(id))
		}
	}
	for _, lane := range modelLanes {
		m.adoptOrder(lane, s.Ready[lane])
		if !slices.Equal(s.Ready[lane], m.ready[lane]) {
			f.add("lane %s has ready %v, should have %v", lane, s.Ready[lane], m.ready[lane])
		}
	}
}

// compareHint: the last hint of a partition tells what there is to do: nothing
// was changed after it.
func (m *model) compareHint(partition int, s State, f *faults) {
	h, told := m.hints[partition]
	if !told {
		return
	}
	due, weight := int64(math.MaxInt64), math.MaxInt
	for _, found := range s.Found {
		if found[0].Place == PlaceDue {
			due = min(due, found[0].At)
		}
	}
	for _, l := range s.Lanes {
		if l.Parked != 0 {
			due = min(due, l.Parked)
		}
		if l.Listed {
			weight = min(weight, l.Weight)
		}
	}
	if none := due == math.MaxInt64; none != h.Due.IsZero() || !none && h.Due.UnixMilli() != due {
		f.add("partition %d was told to be due at %s, should be at %d", partition, h.Due, due)
	}
	if weight == math.MaxInt || s.AllHeld {
		weight = -1
	}
	if h.Weight != weight {
		f.add("partition %d was told to weigh %d, should be %d", partition, h.Weight, weight)
	}
}

// meaningful keeps of a progress what still means something: rungs, deaths and
// who asked concern only what waits.
func meaningful(p Progress, d *modelDelivery) Progress {
	if !d.Place.Waits() || d.mark != MarkNone {
		p.Base, p.Deaths, p.Asked = 0, 0, false
	}
	return p
}

func (m *model) compareMessages(partition int, s State, f *faults) {
	for key, want := range m.messages {
		if key.partition != partition {
			continue
		}
		got, ok := s.Messages[key.id]
		switch {
		case !ok:
			f.add("message %s is gone from partition %d", key.id, partition)
		case got.Whole != want.whole:
			f.add("message %s is whole %v, should be %v", key.id, got.Whole, want.whole)
		case want.whole && !maps.Equal(got.Lanes, want.lanes):
			f.add("message %s has lanes %v, should have %v", key.id, got.Lanes, want.lanes)
		}
	}
	for id := range s.Messages {
		if m.messages[recordKey{partition, id}] == nil {
			f.add("message %s is in partition %d, should not be", id, partition)
		}
	}
}

// compareLook looks at one delivery as callers do.
func (m *model) compareLook(id dispatcher.DeliveryID) {
	m.Helper()
	got, d := m.look(id), m.deliveries[id]
	require.Equal(m, m.status(id), got.Status, "%s", id)
	require.Equal(m, m.waitsFor(id), got.WaitingFor, "%s", id)
	require.Equal(m, d.progress.Attempts, got.Attempts, "%s", id)
	require.Len(m, got.History, d.history, "%s", id)
	require.Equal(m, d.progress.Reason, got.Reason, "%s", id)
	if d.Place == PlaceDue && !got.Status.Ended() {
		require.Equal(m, d.At, got.Due.UnixMilli(), "%s", id)
	}
	if !d.Place.Waits() {
		require.Equal(m, d.At, got.Ended.UnixMilli(), "%s", id)
	}
}

// status is the one that callers are told.
func (m *model) status(id dispatcher.DeliveryID) dispatcher.Status {
	d := m.deliveries[id]
	switch {
	case d.mark == MarkCancelled:
		return dispatcher.StatusCancelled
	case d.mark == MarkDelivered:
		return dispatcher.StatusDelivered
	case d.Place.Waits() && d.Place != PlaceLeased && m.limits[id.Lane].Held == dispatcher.HeldDeleted:
		return dispatcher.StatusCancelled
	case d.Place == PlaceDue && d.progress.Attempts > d.progress.Base:
		return dispatcher.StatusRetrying
	}
	return map[Place]dispatcher.Status{
		PlaceDue: dispatcher.StatusScheduled, PlaceBehind: dispatcher.StatusScheduled, PlaceReady: dispatcher.StatusReady, PlaceLeased: dispatcher.StatusInFlight,
		PlaceDone: dispatcher.StatusDelivered, PlaceDead: dispatcher.StatusDead, PlaceCancelled: dispatcher.StatusCancelled,
	}[d.Place]
}

// compareList lists everything, or what has one status, in pages.
func (m *model) compareList() {
	m.Helper()
	var f dispatcher.Filter
	if m.rng.IntN(2) == 0 {
		f.Statuses = []dispatcher.Status{pick(m.rng, dispatcher.Statuses...)}
	}
	want := map[dispatcher.DeliveryID]dispatcher.Status{}
	for id := range m.deliveries {
		if status := m.status(id); len(f.Statuses) == 0 || status == f.Statuses[0] {
			want[id] = status
		}
	}
	requireStatuses(m.rig, want, m.listAll(f, pick(m.rng, 1, 7, 100)))
}

// trimAs trims until there is no more. What goes first is the store's choice
// within the rules, so the model follows it and checks the rules.
func (m *model) trimAs(keep dispatcher.Keep) {
	m.Helper()
	m.logf("trim %+v", keep)
	got := m.trim(keep)
	states := m.States()
	state := merged(states)
	finished, dead := 0, 0
	gone := map[recordKey]goneLanes{}
	for _, id := range sortedIDs(m.deliveries) {
		d := m.deliveries[id]
		if len(state.Found[id]) > 0 {
			continue
		}
		require.False(m, d.Place.Waits(), "%s was trimmed from %s", id, d.Place)
		if d.Place == PlaceDead {
			dead++
		} else {
			finished++
		}
		m.forget(id, keep, states, gone)
	}
	for key, lanes := range gone {
		m.forgetMessage(key, lanes, keep, states[key.partition])
	}
	require.Equal(m, finished, got.Finished)
	require.Equal(m, dead, got.Dead)
	m.checkKept(keep, states)
	for key, msg := range m.messages {
		if _, ok := states[key.partition].Messages[key.id]; !msg.whole && !ok {
			delete(m.messages, key)
		}
	}
	require.Equal(m, m.trimLanes(), got.Lanes)
}

// trimLanes forgets the lanes that nothing uses and answers how many.
func (m *model) trimLanes() (n int) {
	for lane, since := range m.noted {
		if since > m.ms()-time.Hour.Milliseconds() {
			continue
		}
		m.noted[lane] = m.ms()
		l, limited := m.limits[lane]
		if m.inFlight(lane)+m.waitingIn(lane) == 0 && (!limited || l.Held == dispatcher.HeldDeleted) {
			n++
			delete(m.lanes, lane)
			delete(m.limits, lane)
			delete(m.noted, lane)
		}
	}
	return n
}

// goneLanes says why a message's deliveries went in one trim: of age, and dead
// ones too many, they go without a trace; cut ones leave the digest.
type goneLanes struct{ cut, traceless bool }

// forget takes a delivery out of the model. Before its age it goes only if no
// older one stays.
func (m *model) forget(id dispatcher.DeliveryID, keep dispatcher.Keep, states []State, gone map[recordKey]goneLanes) {
	m.Helper()
	d := m.deliveries[id]
	delete(m.deliveries, id)
	age := keep.Finished
	if d.Place == PlaceDead {
		age = keep.Dead
	}
	old := d.At <= m.ms()-age.Milliseconds()
	if !old {
		for other, found := range states[m.Partition(id.Lane)].Found {
			if found[0].Place == d.Place {
				require.GreaterOrEqual(m, found[0].At, d.At, "%s was trimmed, and the older %s was not", id, other)
			}
		}
	}
	key := recordKey{m.Partition(id.Lane), id.Message}
	m.messages[key].lanes[id.Lane] = false
	lanes := gone[key]
	if d.Place == PlaceDead || old {
		lanes.traceless = true
	} else {
		lanes.cut = true
	}
	gone[key] = lanes
}

// forgetMessage takes a message out of the model if that was its last lane.
func (m *model) forgetMessage(key recordKey, gone goneLanes, keep dispatcher.Keep, s State) {
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

// checkKept: nothing is left that is too old or too much, and nothing went that
// was neither.
func (m *model) checkKept(keep dispatcher.Keep, states []State) {
	m.Helper()
	for n, s := range states {
		finished, dead := 0, 0
		for id, found := range s.Found {
			age := keep.Finished
			switch found[0].Place {
			case PlaceDone, PlaceCancelled:
				finished++
			case PlaceDead:
				dead++
				age = keep.Dead
			default:
				continue
			}
			require.Greater(m, found[0].At, m.ms()-age.Milliseconds(), "%s is past its age", id)
		}
		require.LessOrEqual(m, finished, keep.FinishedMax, "partition %d", n)
		require.LessOrEqual(m, dead, keep.DeadMax, "partition %d", n)
		require.LessOrEqual(m, len(s.Seen), keep.SeenMax, "partition %d", n)
		for id, at := range s.Seen {
			require.Greater(m, at, m.ms()-keep.Finished.Milliseconds(), "%s is known past its age", id)
		}
	}
}
