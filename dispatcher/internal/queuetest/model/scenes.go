package model

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
)

// scenes make moves that random things seldom make.
var scenes = []func(m *model){sceneExpiredInDeletedLane, sceneSuspectIsTaken, sceneLateBehind, sceneSweeps}

// publishTo publishes a message to one lane. Nothing of it is leased at once.
func (m *model) publishTo(id string, lane dispatcher.Lane, change func(*dispatcher.Message)) dispatcher.DeliveryID {
	m.Helper()
	m.publish(&publishing{by: rig.One}, []dispatcher.Entry{m.Entry(id, []dispatcher.Lane{lane}, change)})
	return rig.Named(lane, id)
}

func ordered(msg *dispatcher.Message) { msg.OrderingKey = "k" }

// sceneExpiredInDeletedLane ends a delivery that waits behind another one in the lane of a deleted
// endpoint, when its message expires.
func sceneExpiredInDeletedLane(m *model) {
	m.publishTo("m1", rig.EpOne, ordered)
	m.publishTo("m2", rig.EpOne, func(msg *dispatcher.Message) {
		msg.OrderingKey, msg.ExpiresAt = "k", m.Now.Truncate(time.Millisecond).Add(10*time.Second)
	})
	m.claimAs(rig.One, m.All(), 1, m.Setup.Permits)
	m.limitLane(rig.EpOne, m.newLimits(rig.EpOne, rig.Held(dispatcher.HeldDeleted)), false)
	m.passBy(time.Minute)
	m.moveAll(rig.One)
}

// sceneSuspectIsTaken lets a suspect wait that a consumer would take beside another one.
func sceneSuspectIsTaken(m *model) {
	m.publishTo("m1", "q_q", func(*dispatcher.Message) {})
	take := dispatcher.Take{Lanes: []dispatcher.Lane{"q_q"}, Most: 1, Bytes: 1 << 20, Suspects: 1}
	for range 2 {
		by := m.instances[0]
		m.takeAs(by, take)
		m.declareDead(by)
	}
	take.Suspects = 0
	m.takeAs(m.instances[0], take)
}

// sceneLateBehind sends a delivered delivery again, behind another one of its key. Then an earlier
// attempt succeeds late.
func sceneLateBehind(m *model) {
	first := m.publishTo("m1", "a", ordered)
	m.publishTo("m2", "a", ordered)
	late := m.claimAs(rig.One, m.All(), 1, m.Setup.Permits)
	m.declareDead(rig.One)
	for _, c := range m.claimAs(rig.Two, m.All(), 1, m.Setup.Permits) {
		m.settleAs(rig.Two, []dispatcher.Settlement{rig.Success(c)})
	}
	m.retrySome([]dispatcher.DeliveryID{first}, true)
	m.settleAs(rig.One, []dispatcher.Settlement{rig.Success(late[0])})
}

// sceneSweeps sweeps lanes of a disabled and of a deleted endpoint.
func sceneSweeps(m *model) {
	for lane, held := range map[dispatcher.Lane]dispatcher.Held{rig.EpOne: dispatcher.HeldDisabled, rig.EpTwo: dispatcher.HeldDeleted} {
		m.publishTo("m-"+string(lane), lane, func(msg *dispatcher.Message) { msg.Delay = time.Hour })
		m.limitLane(lane, m.newLimits(lane, rig.Held(held)), false)
		m.sweepLane(lane)
	}
}
