package model

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// How deliveries end in the model, and which delivery is next then.

// end puts a delivery into its final place, now.
func (m *model) end(id dispatcher.DeliveryID, place redisqtest.Place) {
	d := m.deliveries[id]
	m.moveTo(id, redisqtest.Found{Place: place, At: m.endsAt(id.Lane)})
	d.mark, d.last = redisqtest.MarkNone, redisqtest.Taken{}
	switch place {
	case redisqtest.PlaceDead:
		m.ends["dead "+string(d.progress.Reason)]++
		m.mourned[id] = d.progress.Reason
	case redisqtest.PlaceCancelled:
		m.ends["cancelled -"]++
	}
	m.leave(id)
}

// endsAt returns the end time of a delivery that ends now. If the clock stepped
// back by up to an hour, it is not before earlier ends in the same partition.
func (m *model) endsAt(lane dispatcher.Lane) int64 {
	newest := map[redisqtest.Place]int64{} // of each set
	for id, d := range m.deliveries {
		if !d.Place.Waits() && m.Partition(id.Lane) == m.Partition(lane) {
			newest[d.Place] = max(newest[d.Place], d.At)
		}
	}
	at := m.ms()
	for _, ms := range newest {
		if ms <= m.ms()+time.Hour.Milliseconds() {
			at = max(at, ms)
		}
	}
	return at
}

// die ends a delivery as dead.
func (m *model) die(id dispatcher.DeliveryID, reason dispatcher.DeadReason) {
	m.deliveries[id].progress.Reason = reason
	m.end(id, redisqtest.PlaceDead)
}

// giveUp ends a delivery as its disabled or deleted lane requires.
func (m *model) giveUp(id dispatcher.DeliveryID) {
	if m.limits[id.Lane].Mode == dispatcher.LaneDisabled {
		m.die(id, dispatcher.ReasonDisabled)
	} else {
		m.end(id, redisqtest.PlaceCancelled)
	}
}

// carryOut ends a delivery as its mark requires.
func (m *model) carryOut(id dispatcher.DeliveryID) {
	if m.deliveries[id].mark == redisqtest.MarkDelivered {
		m.end(id, redisqtest.PlaceDone)
	} else {
		m.end(id, redisqtest.PlaceCancelled)
	}
}

// setOf returns the line in which a delivery would wait now. The key "" means
// none.
func (m *model) setOf(id dispatcher.DeliveryID, msg *modelMessage) redisqtest.Set {
	switch key := msg.message.OrderingKey; {
	case m.limits[id.Lane].Ordered:
		return redisqtest.Set{Lane: id.Lane, Key: redisqtest.OneLine}
	case key != "":
		sum := sha256.Sum256([]byte(key))
		return redisqtest.Set{Lane: id.Lane, Key: fmt.Sprintf("%x", sum[:8])}
	}
	return redisqtest.Set{}
}

// join puts a delivery in its line, if it has one. It reports whether the
// delivery waits behind another.
func (m *model) join(id dispatcher.DeliveryID) (behind bool) {
	set := m.setOf(id, m.messages[recordKey{m.Partition(id.Lane), id.Message}])
	if set.Key == "" {
		return false
	}
	line, at := m.sets[set], m.ms()
	if len(line) > 0 {
		at = max(at, line[len(line)-1].At+1)
		m.moveTo(id, redisqtest.Found{Place: redisqtest.PlaceBehind, At: at})
	}
	m.sets[set] = append(line, redisqtest.Queued{ID: id, At: at})
	return len(line) > 0
}

// leave takes a delivery out of its line. If it was the first, the next one is
// placed.
func (m *model) leave(id dispatcher.DeliveryID) {
	for set, line := range m.sets {
		at := slices.IndexFunc(line, func(q redisqtest.Queued) bool { return q.ID == id })
		if at < 0 {
			continue
		}
		line = slices.Delete(slices.Clone(line), at, at+1)
		m.sets[set] = line
		if len(line) == 0 {
			delete(m.sets, set)
		} else if at == 0 {
			m.letGo(line[0].ID)
		}
		return
	}
}

// letGo places the new first of a line.
func (m *model) letGo(id dispatcher.DeliveryID) {
	m.released[id] = true
	defer m.calls(m.script)
	m.calls(anyScript)
	d := m.deliveries[id]
	due := m.messages[recordKey{m.Partition(id.Lane), id.Message}].due
	if d.progress.Asked != 0 {
		due = m.ms() // a person asked for it now, so its due time does not matter
	}
	switch {
	case m.ended(id.Lane):
		m.giveUp(id)
	case due > m.ms():
		m.moveTo(id, redisqtest.Found{Place: redisqtest.PlaceDue, At: due})
	default:
		m.toReady(id, due, false)
	}
}

// tookBack reports whether the call ended a delivery that the same call had
// released from its line. The store may end it before or after it became ready.
// In that case it is removed from its ready list.
func (m *model) tookBack(id dispatcher.DeliveryID, ended bool) bool {
	if !ended || !m.released[id] || m.deliveries[id].Place != redisqtest.PlaceReady {
		return false
	}
	m.ready[id.Lane] = slices.DeleteFunc(m.ready[id.Lane], func(other dispatcher.DeliveryID) bool { return other == id })
	m.deliveries[id].Place = redisqtest.PlaceBehind
	return true
}

// adoptOrder takes over the order in which one call released several
// deliveries. The store may release them in any order.
func (m *model) adoptOrder(lane dispatcher.Lane, store []dispatcher.DeliveryID) {
	mine := m.ready[lane]
	if len(mine) != len(store) {
		return
	}
	for i, id := range mine {
		if id == store[i] {
			continue
		}
		loose := func(other dispatcher.DeliveryID) bool {
			return !m.released[other] || !slices.Contains(store[i:], other)
		}
		if !slices.ContainsFunc(mine[i:], loose) {
			m.ready[lane] = slices.Clone(store)
		}
		return
	}
}

func (m *model) compareSets(s redisqtest.State, f *redisqtest.Faults) {
	for set, line := range m.sets {
		if !slices.Equal(s.Behind[set], line) {
			f.Add("set %v is %v, should be %v", set, s.Behind[set], line)
		}
	}
	for set, line := range s.Behind {
		if m.sets[set] == nil {
			f.Add("set %v is %v, should not be", set, line)
		}
	}
}
