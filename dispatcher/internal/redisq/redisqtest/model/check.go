package model

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// compare fails the test if the store differs from the model. It also reads one
// delivery as callers do.
func (m *model) compare() {
	m.Helper()
	states := m.MustBeSound()
	state := redisqtest.Merged(states)
	var f redisqtest.Faults
	m.comparePlaces(state, &f)
	for n, s := range states {
		m.compareMessages(n, s, &f)
		m.compareHint(n, s, &f)
		m.compareSwitches(n, s, &f)
	}
	m.compareLanes(state, &f)
	m.compareSets(state, &f)
	m.compareEnds(state, &f)
	require.Empty(m, f, "the store differs from the model")
	m.released = map[dispatcher.DeliveryID]bool{}
	if ids := redisqtest.SortedIDs(m.deliveries); len(ids) > 0 {
		m.compareRead(pick(m.rng, ids...))
	}
}

// compareSwitches compares the settings of a whole partition.
func (m *model) compareSwitches(partition int, s redisqtest.State, f *redisqtest.Faults) {
	if s.AllPaused != m.allPaused[partition] {
		f.Add("all lanes of partition %d are paused %v, should be %v", partition, s.AllPaused, m.allPaused[partition])
	}
	var fenced []string
	for fence := range m.fences {
		if fence.partition == partition {
			fenced = append(fenced, fence.name)
		}
	}
	slices.Sort(fenced)
	if got := slices.Sorted(slices.Values(s.Fenced)); !slices.Equal(got, fenced) {
		f.Add("partition %d fences %v, should fence %v", partition, got, fenced)
	}
}

func (m *model) comparePlaces(s redisqtest.State, f *redisqtest.Faults) {
	for _, id := range redisqtest.SortedIDs(m.deliveries) {
		d := m.deliveries[id]
		if at := s.At(id); at != d.Found {
			f.Add("%s is in %+v, should be in %+v", id, at, d.Found)
		}
		if got := s.Taken[id]; d.Place == redisqtest.PlaceTaken && got != d.taken {
			f.Add("%s is taken as %+v, should be as %+v", id, got, d.taken)
		}
		if d.Place != redisqtest.PlaceTaken && s.Last[id] != d.last {
			f.Add("%s has the last lease %+v, should have %+v", id, s.Last[id], d.last)
		}
		if s.Marks[id] != d.mark {
			f.Add("%s is marked %q, should be %q", id, s.Marks[id], d.mark)
		}
		if s.Unopened[id] != d.unopened {
			f.Add("%s waits for a key since %d, should since %d", id, s.Unopened[id], d.unopened)
		}
		if s.History[id] != d.history {
			f.Add("%s has %d attempts in its history, should have %d", id, s.History[id], d.history)
		}
		got, want := meaningful(s.Progress[id], d), meaningful(d.progress, d)
		if _, ok := s.Progress[id]; !ok && d.Place == redisqtest.PlaceDone {
			got = redisqtest.Progress{Attempts: 1, Status: cmp.Or(s.Plain[id], 200)} // the most common end has no entry
		} else if !ok && d.mark == redisqtest.MarkDelivered {
			got = want // a delivery that is about to end in this way has no entry either
		}
		if got != want {
			f.Add("%s has the progress %+v, should have %+v", id, got, want)
		}
	}
	for _, id := range s.Deliveries() {
		if m.deliveries[id] == nil {
			f.Add("%s is in %+v, should be nowhere", id, s.At(id))
		}
	}
	for _, lane := range modelLanes {
		m.adoptOrder(lane, s.Ready[lane])
		if !slices.Equal(s.Ready[lane], m.ready[lane]) {
			f.Add("lane %s has ready %v, should have %v", lane, s.Ready[lane], m.ready[lane])
		}
	}
}

// compareEnds checks the counts of ends, which are kept for ever. It also
// checks that each death was returned once by a call.
func (m *model) compareEnds(s redisqtest.State, f *redisqtest.Faults) {
	if !maps.Equal(s.Ends, m.ends) {
		f.Add("ends are %v, should be %v", s.Ends, m.ends)
	}
	reported := map[dispatcher.DeliveryID]dispatcher.DeadReason{}
	for _, d := range m.Died {
		reported[d.ID] = d.Reason
		if was, died := m.mourned[d.ID]; !died || was != d.Reason {
			f.Add("%s is reported dead of %s, should be of %q", d.ID, d.Reason, was)
		}
		if want := m.deliveries[d.ID].progress.Attempts; d.Attempts != want {
			f.Add("%s is reported dead after %d attempts, should be %d", d.ID, d.Attempts, want)
		}
	}
	if !m.unheard && len(m.Died) != len(m.mourned) {
		f.Add("the reported deaths are %v, should be %v", reported, m.mourned)
	}
	m.Died, m.unheard = nil, false
	clear(m.mourned)
}

// compareHint checks that the last hint of a partition reports its next work.
// It checks nothing if the partition has changed since the hint.
func (m *model) compareHint(partition int, s redisqtest.State, f *redisqtest.Faults) {
	h, known := m.Hints[partition]
	if !known {
		return
	}
	due, weight := int64(math.MaxInt64), math.MaxInt
	for _, found := range s.Found {
		if found[0].Place == redisqtest.PlaceDue {
			due = min(due, found[0].At)
		}
	}
	for _, timer := range []int64{s.Timer, s.Expiry} {
		if timer != 0 {
			due = min(due, timer)
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
		f.Add("the hint reports partition %d due at %s, should be at %d", partition, h.Due, due)
	}
	if weight == math.MaxInt || s.AllPaused {
		weight = -1
	}
	if h.Weight != weight {
		f.Add("the hint reports the weight of partition %d as %d, should be %d", partition, h.Weight, weight)
	}
}

// meaningful returns the part of a progress that still has a meaning. The rung,
// the deaths and the request of a person count only if the delivery waits.
func meaningful(p redisqtest.Progress, d *modelDelivery) redisqtest.Progress {
	if !d.Place.Waits() || d.mark != redisqtest.MarkNone {
		p.Base, p.Deaths, p.Asked, p.Beside, p.Snoozes = 0, 0, 0, 0, 0
	}
	return p
}

func (m *model) compareMessages(partition int, s redisqtest.State, f *redisqtest.Faults) {
	for key, want := range m.messages {
		if key.partition != partition {
			continue
		}
		got, ok := s.Messages[key.id]
		switch {
		case !ok:
			f.Add("message %s is gone from partition %d", key.id, partition)
		case got.Whole != want.whole:
			f.Add("message %s is whole %v, should be %v", key.id, got.Whole, want.whole)
		case want.whole && !maps.Equal(got.Lanes, want.lanes):
			f.Add("message %s has lanes %v, should have %v", key.id, got.Lanes, want.lanes)
		}
	}
	for id := range s.Messages {
		if m.messages[recordKey{partition, id}] == nil {
			f.Add("message %s is in partition %d, should not be", id, partition)
		}
	}
}

// compareRead compares one delivery with the result of a query.
func (m *model) compareRead(id dispatcher.DeliveryID) {
	m.Helper()
	got, d := m.Inspect(id), m.deliveries[id]
	require.Equal(m, m.status(id), got.Status, "%s", id)
	require.Equal(m, m.waitsFor(id), got.WaitingFor, "%s", id)
	require.Equal(m, m.waitsBehind(id), got.WaitingBehind, "%s", id)
	require.Equal(m, d.progress.Attempts, got.Attempts, "%s", id)
	if d.Place.Waits() && d.mark == redisqtest.MarkNone {
		require.Equal(m, d.progress.Climbed(), got.Climbed, "%s", id)
		require.Equal(m, d.progress.Base+1, got.LadderFrom, "%s", id)
	}
	m.compareSuccess(d, got)
	require.Equal(m, d.progress.Reason, got.Reason, "%s", id)
	if d.Place == redisqtest.PlaceDue && !got.Status.Ended() {
		require.Equal(m, d.At, got.Due.UnixMilli(), "%s", id)
	}
	if !d.Place.Waits() {
		require.Equal(m, d.At, got.Ended.UnixMilli(), "%s", id)
	}
	if d.Place == redisqtest.PlaceDone && !id.Lane.IsQueue() {
		require.Equal(m, d.progress.Status, got.LastStatus, "%s", id)
	}
}

// compareSuccess checks that the first success is reported for ever, also after
// a resend. If a delivery succeeded at once, only the log has its success.
func (m *model) compareSuccess(d *modelDelivery, got dispatcher.Delivery) {
	m.Helper()
	switch {
	case d.progress.Delivered > 0:
		require.Equal(m, d.progress.Delivered, got.Delivered.UnixMilli(), "%s", got.ID)
	case d.Place == redisqtest.PlaceDone:
		require.Equal(m, d.At, got.Delivered.UnixMilli(), "%s", got.ID)
	default:
		require.Zero(m, got.Delivered, "%s", got.ID)
	}
	successes := 0
	for _, a := range got.History {
		if a.Verdict == dispatcher.Delivered {
			successes++
		}
	}
	more := len(got.History) - d.history // the first success and the last, which only the log has
	require.True(m, more >= 0 && more <= min(successes, 2), "%s: %d attempts in the history of %d", got.ID, len(got.History), d.history)
	if d.progress.Delivered > 0 {
		require.True(m, slices.ContainsFunc(got.History, func(a dispatcher.Attempt) bool { return a.Verdict == dispatcher.Delivered }), "%s", got.ID)
	}
}

// status returns the status of a delivery as callers see it.
func (m *model) status(id dispatcher.DeliveryID) dispatcher.Status {
	d := m.deliveries[id]
	switch {
	case d.mark == redisqtest.MarkCancelled:
		return dispatcher.StatusCancelled
	case d.mark == redisqtest.MarkDelivered:
		return dispatcher.StatusDelivered
	case d.Place.Waits() && !d.Place.Flies() && m.limits[id.Lane].Mode == dispatcher.LaneDeleted:
		return dispatcher.StatusCancelled
	case d.Place == redisqtest.PlaceDue && d.progress.Climbed() > 0:
		return dispatcher.StatusRetrying
	}
	return map[redisqtest.Place]dispatcher.Status{
		redisqtest.PlaceDue: dispatcher.StatusScheduled, redisqtest.PlaceBehind: dispatcher.StatusScheduled, redisqtest.PlaceReady: dispatcher.StatusReady, redisqtest.PlaceLeased: dispatcher.StatusInFlight, redisqtest.PlaceTaken: dispatcher.StatusInFlight,
		redisqtest.PlaceDone: dispatcher.StatusDelivered, redisqtest.PlaceDead: dispatcher.StatusDead, redisqtest.PlaceCancelled: dispatcher.StatusCancelled,
	}[d.Place]
}

// compareList compares a list of deliveries, page by page. The list has all
// deliveries or one status. It may also have only some lanes, in the order of
// acceptance.
func (m *model) compareList() {
	m.Helper()
	var f dispatcher.Filter
	if m.rng.IntN(2) == 0 {
		f.Statuses = []dispatcher.Status{pick(m.rng, dispatcher.Statuses()...)}
	}
	if m.rng.IntN(2) == 0 {
		f.Order = dispatcher.OrderAccepted
		f.Lanes = append(f.Lanes, pick(m.rng, modelLanes...), pick(m.rng, modelLanes...))
	}
	want := map[dispatcher.DeliveryID]dispatcher.Status{}
	for id := range m.deliveries {
		status := m.status(id)
		if (len(f.Lanes) == 0 || slices.Contains(f.Lanes, id.Lane)) && (len(f.Statuses) == 0 || status == f.Statuses[0]) {
			want[id] = status
		}
	}
	redisqtest.RequireStatuses(m.Rig, want, m.ListAll(f, pick(m.rng, 1, 7, 100)))
}
