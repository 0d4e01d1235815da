package model

import (
	"maps"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The faults in the model: connections that break, full memory, and a store
// that goes back in time.

// trouble is the fault of one call.
type trouble struct {
	cut  *redisqtest.Cut // the connection breaks; nil: it works
	full bool            // there is no memory left
}

// suffer runs act, sometimes over a connection that breaks or with full memory.
// If the connection breaks before a script, the call is half done. If it breaks
// after a script, the reply is lost.
func (m *model) suffer(act func()) {
	m.Helper()
	kind := m.rng.IntN(10)
	switch {
	case kind == 8 && m.Cut != nil:
		m.cutDuring(act)
	case kind == 9 && m.Fill != nil:
		m.logf("memory is full")
		m.Fill(true)
		m.trouble.full = true
		act()
		m.Fill(false)
		m.trouble.full = false
	default:
		act()
	}
}

func (m *model) cutDuring(act func()) {
	m.Helper()
	scripts, answered := m.rng.IntN(m.Setup.Partitions+2), m.rng.IntN(3) == 2
	m.logf("the line breaks after %d scripts, answered %v", scripts, answered)
	cut := m.Cut(scripts, answered)
	clear(m.Hints) // without a reply there is no hint
	m.unheard = true
	m.Queue, m.trouble.cut = cut.Queue, &cut
	act()
	m.Queue, m.trouble.cut = m.Good, nil
}

// went reports whether all partitions replied to a call. Only a connection that
// breaks may cause an error.
func (m *model) went(err error) bool {
	m.Helper()
	if m.trouble.cut == nil {
		require.NoError(m, err)
	} else if err != nil {
		require.ErrorIs(m, err, dispatcher.ErrUnavailable)
	}
	return err == nil
}

// ran reports whether the current call reached a partition. A script that was
// reached has done everything, even without a reply.
func (m *model) ran(partition int) bool {
	return m.trouble.cut == nil || m.trouble.cut.Ran(partition)
}

// cameTo returns the partitions that the current call reached.
func (m *model) cameTo() []int {
	return slices.DeleteFunc(m.All(), func(n int) bool { return !m.ran(n) })
}

// came reports whether the current call reached a lane.
func (m *model) came(lane dispatcher.Lane) bool { return m.ran(m.Partition(lane)) }

// snapshot is the whole content of the store at some time.
type snapshot struct {
	kept    *kept
	restore func()
}

// doCopy copies the store to a replica.
func (m *model) doCopy() {
	if m.Copy == nil {
		return
	}
	m.logf("copy")
	m.copy = &snapshot{kept: m.kept.clone(), restore: m.Copy()}
}

// doRestore lets the replica take over, which got no changes after the copy.
// Later messages are lost, settles are forgotten, and dead instances live. Then
// all instances beat, also those that were stopped and declared dead.
func (m *model) doRestore() {
	m.Helper()
	if m.copy == nil {
		return
	}
	m.logf("restore")
	m.copy.restore()
	m.kept = m.copy.kept.clone()
	clear(m.Hints)
	m.walks = nil // the store went back in time
	for _, name := range append(m.stopped(), m.instances...) {
		m.beatAs(name)
	}
}

func (k *kept) clone() *kept {
	c := &kept{
		messages: map[recordKey]*modelMessage{}, deliveries: map[dispatcher.DeliveryID]*modelDelivery{},
		ready: map[dispatcher.Lane][]dispatcher.DeliveryID{}, sets: map[redisqtest.Set][]redisqtest.Queued{}, lanes: map[dispatcher.Lane]*modelLane{},
		limits: maps.Clone(k.limits), noted: maps.Clone(k.noted), leads: maps.Clone(k.leads), allPaused: maps.Clone(k.allPaused),
		fences: maps.Clone(k.fences), known: maps.Clone(k.known), ends: maps.Clone(k.ends),
	}
	for key, msg := range k.messages {
		twin := *msg
		twin.lanes = maps.Clone(msg.lanes)
		c.messages[key] = &twin
	}
	for id, d := range k.deliveries {
		twin := *d
		c.deliveries[id] = &twin
	}
	for lane, list := range k.ready {
		c.ready[lane] = slices.Clone(list)
	}
	for set, line := range k.sets {
		c.sets[set] = slices.Clone(line)
	}
	for lane, l := range k.lanes {
		twin := *l
		c.lanes[lane] = &twin
	}
	return c
}
