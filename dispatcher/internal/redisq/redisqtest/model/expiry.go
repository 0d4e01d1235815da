package model

import (
	"cmp"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// expiring returns the deliveries that the next move checks because they have
// expired, in the store's order. A move reads only a partition whose expiry
// time has come.
func (m *model) expiring() (list []dispatcher.DeliveryID) {
	at := map[dispatcher.DeliveryID]int64{}
	for _, s := range m.States() {
		if s.Expiry == 0 || s.Expiry > m.ms() {
			continue
		}
		for _, id := range redisqtest.SortedIDs(s.Expiring) {
			if at[id] = s.Expiring[id]; at[id] <= m.ms() {
				list = append(list, id)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b dispatcher.DeliveryID) int { return cmp.Compare(at[a], at[b]) })
	return list
}

// expire ends a delivery that has expired, unless it is in flight.
func (m *model) expire(id dispatcher.DeliveryID) {
	d := m.deliveries[id]
	if d.Place.Flies() || !d.Place.Waits() {
		return
	}
	m.ready[id.Lane] = slices.DeleteFunc(m.ready[id.Lane], func(other dispatcher.DeliveryID) bool { return other == id })
	switch {
	case d.mark != redisqtest.MarkNone:
		m.carryOut(id)
	case m.ended(id.Lane):
		m.giveUp(id)
	default:
		m.die(id, dispatcher.ReasonExpired)
	}
}
