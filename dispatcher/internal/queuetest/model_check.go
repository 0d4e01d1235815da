package queuetest

import (
	"maps"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// compare fails the test where the store differs from the model. It looks at
// one message as callers do.
func (m *model) compare() {
	m.Helper()
	states := m.mustBeSound()
	state := merged(states)
	var f faults
	m.comparePlaces(state, &f)
	for n, s := range states {
		m.compareMessages(n, s, &f)
		m.compareHint(n, s, &f)
		m.compareSwitches(n, s, &f)
	}
	m.compareLanes(state, &f)
	m.compareSets(state, &f)
	m.compareEnds(state, &f)
	require.Empty(m, f, "the store is not what the model is")
	m.released = map[dispatcher.DeliveryID]bool{}
	if ids := sortedIDs(m.deliveries); len(ids) > 0 {
		m.compareLook(pick(m.rng, ids...))
	}
}

// compareSwitches compares the settings of a whole partition.
func (m *model) compareSwitches(partition int, s State, f *faults) {
	if s.AllHeld != m.allHeld[partition] {
		f.add("all lanes of partition %d are held %v, should be %v", partition, s.AllHeld, m.allHeld[partition])
	}
	var fenced []string
	for fence := range m.fences {
		if fence.partition == partition {
			fenced = append(fenced, fence.name)
		}
	}
	slices.Sort(fenced)
	if got := slices.Sorted(slices.Values(s.Fenced)); !slices.Equal(got, fenced) {
		f.add("partition %d fences %v, should fence %v", partition, got, fenced)
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
			got = Progress{Attempts: 1, Status: 200} // the most common end has no entry
		} else if !ok && d.mark == MarkDelivered {
			got = want // nor has a delivery that is about to end so
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

// compareEnds checks the counts of ends, which are kept for ever. It also
// checks that each death was told once, by an answer.
func (m *model) compareEnds(s State, f *faults) {
	if !maps.Equal(s.Ends, m.ends) {
		f.add("ends are %v, should be %v", s.Ends, m.ends)
	}
	told := map[dispatcher.DeliveryID]dispatcher.DeadReason{}
	for _, d := range m.died {
		told[d.ID] = d.Reason
		if was, died := m.mourned[d.ID]; !died || was != d.Reason {
			f.add("%s was told to have died of %s, did of %q", d.ID, d.Reason, was)
		}
		if want := m.deliveries[d.ID].progress.Attempts; d.Attempts != want {
			f.add("%s was told to have died after %d attempts, should be %d", d.ID, d.Attempts, want)
		}
	}
	if !m.unheard && len(m.died) != len(m.mourned) {
		f.add("%v were told to have died, did %v", told, m.mourned)
	}
	m.died, m.unheard = nil, false
	clear(m.mourned)
}

// compareHint checks that the last hint of a partition tells its next work, if
// nothing changed since.
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

// meaningful is the part of a progress that still means something. The rung,
// the deaths and the request of a person count only for a delivery that waits.
func meaningful(p Progress, d *modelDelivery) Progress {
	if !d.Place.Waits() || d.mark != MarkNone {
		p.Base, p.Deaths, p.Asked, p.Beside = 0, 0, 0, 0
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

// compareLook compares one delivery with the answer of a look.
func (m *model) compareLook(id dispatcher.DeliveryID) {
	m.Helper()
	got, d := m.look(id), m.deliveries[id]
	require.Equal(m, m.status(id), got.Status, "%s", id)
	require.Equal(m, m.waitsFor(id), got.WaitingFor, "%s", id)
	require.Equal(m, d.progress.Attempts, got.Attempts, "%s", id)
	if d.Place.Waits() && d.mark == MarkNone {
		require.Equal(m, d.progress.climbed(), got.Climbed, "%s", id)
		require.Equal(m, d.progress.Base+1, got.LadderFrom, "%s", id)
	}
	m.compareSuccess(d, got)
	require.Equal(m, d.progress.Reason, got.Reason, "%s", id)
	if d.Place == PlaceDue && !got.Status.Ended() {
		require.Equal(m, d.At, got.Due.UnixMilli(), "%s", id)
	}
	if !d.Place.Waits() {
		require.Equal(m, d.At, got.Ended.UnixMilli(), "%s", id)
	}
}

// compareSuccess checks that the first success is told for ever, also after a
// resend. No attempt is kept of a delivery that succeeded at once.
func (m *model) compareSuccess(d *modelDelivery, got dispatcher.Delivery) {
	m.Helper()
	switch {
	case d.progress.Delivered > 0:
		require.Equal(m, d.progress.Delivered, got.Delivered.UnixMilli(), "%s", got.ID)
	case d.Place == PlaceDone:
		require.Equal(m, d.At, got.Delivered.UnixMilli(), "%s", got.ID)
	default:
		require.Zero(m, got.Delivered, "%s", got.ID)
	}
	kept := slices.DeleteFunc(slices.Clone(got.History), func(a dispatcher.Attempt) bool {
		return a.At.Equal(got.Delivered) && a.Duration == 0 && a.Verdict == dispatcher.Delivered
	})
	require.Contains(m, []int{len(got.History), len(kept)}, d.history, "%s", got.ID)
	if d.progress.Delivered > 0 {
		require.True(m, slices.ContainsFunc(got.History, func(a dispatcher.Attempt) bool { return a.Verdict == dispatcher.Delivered }), "%s", got.ID)
	}
}

// status is the status that callers are told.
func (m *model) status(id dispatcher.DeliveryID) dispatcher.Status {
	d := m.deliveries[id]
	switch {
	case d.mark == MarkCancelled:
		return dispatcher.StatusCancelled
	case d.mark == MarkDelivered:
		return dispatcher.StatusDelivered
	case d.Place.Waits() && d.Place != PlaceLeased && m.limits[id.Lane].Held == dispatcher.HeldDeleted:
		return dispatcher.StatusCancelled
	case d.Place == PlaceDue && d.progress.climbed() > 0:
		return dispatcher.StatusRetrying
	}
	return map[Place]dispatcher.Status{
		PlaceDue: dispatcher.StatusScheduled, PlaceBehind: dispatcher.StatusScheduled, PlaceReady: dispatcher.StatusReady, PlaceLeased: dispatcher.StatusInFlight,
		PlaceDone: dispatcher.StatusDelivered, PlaceDead: dispatcher.StatusDead, PlaceCancelled: dispatcher.StatusCancelled,
	}[d.Place]
}

// compareList compares the list of all deliveries, or of one status, page by
// page.
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
