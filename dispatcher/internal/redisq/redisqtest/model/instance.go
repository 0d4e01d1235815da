package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The model's view of instances: the living ones, and the ones that were
// declared dead, by partition.

// stopped returns the instances that were declared dead and may be alive. No
// stopped process continues after a week, and a fence lasts as long.
func (m *model) stopped() []string {
	var names []string
	for _, name := range m.gone {
		if m.Now.Sub(m.goneAt[name]) < 6*24*time.Hour {
			names = append(names, name)
		}
	}
	return names
}

// someInstance returns an instance, mostly a living one.
func (m *model) someInstance() string {
	if stopped := m.stopped(); len(stopped) > 0 && m.rng.IntN(6) == 5 {
		return pick(m.rng, stopped...)
	}
	return pick(m.rng, m.instances...)
}

func (m *model) isFenced(by string, partition int) bool {
	_, fenced := m.fences[fence{partition, by}]
	return fenced
}

// fencedIn counts the partitions in which an instance is fenced.
func (m *model) fencedIn(by string) (n int) {
	for _, partition := range m.All() {
		if m.isFenced(by, partition) {
			n++
		}
	}
	return n
}

// doReap declares an instance dead, sometimes once more. Another one takes its
// place.
func (m *model) doReap() {
	m.Helper()
	dead := pick(m.rng, m.instances...)
	if len(m.gone) > 0 && m.rng.IntN(4) == 3 {
		dead = pick(m.rng, m.gone...)
	}
	m.declareDead(dead)
}

func (m *model) declareDead(dead string) {
	m.Helper()
	if at := slices.Index(m.instances, dead); at >= 0 {
		m.instances[at] = fmt.Sprintf("instance%d", len(m.goneAt))
		m.beatAs(m.instances[at])
		m.gone = append(m.gone, dead)
	}
	m.goneAt[dead] = m.Now
	m.reap(dead)
}

func (m *model) reap(dead string) {
	m.Helper()
	leased := m.leasedTo(dead)
	slices.SortStableFunc(leased, func(a, b dispatcher.DeliveryID) int {
		return cmp.Compare(m.deliveries[b].At, m.deliveries[a].At)*2 + cmp.Compare(b.String(), a.String())
	})
	m.logf("reap %s, which holds %v", dead, leased)
	m.calls("reap")
	taken, hints, err := m.Queue.Reap(m.Ctx, m.instances[0], dead)
	m.MustBeCurrent(hints)
	if m.went(err) {
		require.Equal(m, len(leased), taken)
		delete(m.known, dead)
	}
	for _, n := range m.cameTo() {
		for f, at := range m.fences {
			if f.partition == n && at <= m.ms()-(7*24*time.Hour).Milliseconds() {
				delete(m.fences, f)
			}
		}
		m.fences[fence{n, dead}] = m.ms()
	}
	for _, id := range leased {
		if m.came(id.Lane) {
			m.takenOver(id)
		}
	}
}

// takenOver changes a delivery whose lease was of a dead instance.
func (m *model) takenOver(id dispatcher.DeliveryID) {
	d := m.deliveries[id]
	begun := false
	switch d.progress.Deaths {
	case begunDeaths:
		begun = true
	case begunAloneDeaths:
		begun, d.progress.Deaths = true, 4
	case besideDeaths, aloneDeaths:
		d.progress.Deaths = aloneDeaths
	default:
		d.progress.Deaths = min(d.progress.Deaths+1, suspectDeaths)
	}
	switch {
	case d.mark != redisqtest.MarkNone:
		m.carryOut(id)
	case begun:
		d.progress.Attempts += d.progress.Deaths
		d.progress.Status = 0
		m.die(id, dispatcher.ReasonPoison)
	case m.ended(id.Lane):
		m.giveUp(id)
	default:
		m.toReady(id, d.At, true)
	}
}

// leasedTo returns the deliveries that the store has leased to an instance.
func (m *model) leasedTo(by string) []dispatcher.DeliveryID {
	var ids []dispatcher.DeliveryID
	for _, id := range redisqtest.SortedIDs(m.deliveries) {
		if d := m.deliveries[id]; d.Place == redisqtest.PlaceLeased && d.Holder == by {
			ids = append(ids, id)
		}
	}
	return ids
}

// doBeat sends a heartbeat of an instance. The instance learns which others are
// alive.
func (m *model) doBeat() {
	m.Helper()
	by := m.someInstance()
	m.logf("beat of %s", by)
	fresh, all, err := m.Queue.Beat(m.Ctx, by, m.beats[by]+1)
	if m.went(err) {
		m.heard(by, fresh, all)
	}
}

// beatAs sends a heartbeat of an instance, also while other calls have faults.
func (m *model) beatAs(by string) {
	m.Helper()
	fresh, all, err := m.Good.Beat(m.Ctx, by, m.beats[by]+1)
	require.NoError(m, err)
	m.heard(by, fresh, all)
}

func (m *model) heard(by string, fresh bool, all map[string]int64) {
	m.Helper()
	_, known := m.known[by]
	require.Equal(m, !known, fresh, "%s was forgotten since its last beat, or was not", by)
	m.beats[by]++
	m.known[by] = m.beats[by]
	require.Equal(m, m.known, all)
}

// doReconcile compares the leases of an instance in the store with its own
// view. It hands unknown leases back, because no other call would find them.
func (m *model) doReconcile() {
	m.Helper()
	by := pick(m.rng, m.instances...)
	m.logf("reconcile %s", by)
	leases, err := m.Queue.Leases(m.Ctx, by)
	if !m.went(err) {
		require.Subset(m, m.leasedTo(by), redisqtest.LeasedIDs(leases))
		return
	}
	require.ElementsMatch(m, m.leasedTo(by), redisqtest.LeasedIDs(leases))
	var unknown []dispatcher.Settlement
	for _, l := range leases {
		require.Equal(m, m.deliveries[l.ID].At, l.At.UnixMilli(), "%s", l.ID)
		if !slices.ContainsFunc(m.claims, func(h holding) bool { return h.by == by && h.claimed.ID == l.ID }) {
			back := redisqtest.HandBack(dispatcher.Claimed{ID: l.ID, Due: m.Now.Truncate(time.Millisecond), Leased: l.At})
			unknown = append(unknown, back)
		}
	}
	if len(unknown) > 0 && m.trouble.cut == nil { // the cut counts the scripts of all calls together, and this is the second call
		m.settleAs(by, unknown)
	}
}

// buryInstances takes over from all instances that were declared dead, if an
// earlier takeover did not finish.
func (m *model) buryInstances() {
	m.Helper()
	for _, name := range m.gone {
		if _, known := m.known[name]; known || len(m.leasedTo(name)) > 0 {
			m.reap(name)
			m.compare()
		}
	}
}

// leaveAll lets the living instances sign off. After that, no instance is known
// any more.
func (m *model) leaveAll() {
	m.Helper()
	for _, name := range slices.Sorted(maps.Keys(m.known)) {
		require.NoError(m, m.Queue.Leave(m.Ctx, name))
		delete(m.known, name)
	}
	require.Empty(m, m.known)
	got, err := m.Queue.Stats(m.Ctx)
	require.NoError(m, err)
	require.Zero(m, got.Instances)
}
