package model

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// scenes make each move of a delivery, with a new store for each scene.
var scenes = []func(m *model){
	scenePublish, sceneAttempts, sceneMarks, sceneLate, sceneLateBehind, sceneInstanceDies, sceneSuspects,
	sceneConsumers, sceneSuspectIsTaken, sceneExpiry, sceneExpiredBehind, sceneCancelAndRetry, sceneLines,
	func(m *model) { sceneEndpointEnds(m, dispatcher.LaneDisabled) }, func(m *model) { sceneEndpointEnds(m, dispatcher.LaneDeleted) },
	func(m *model) { sceneLineEnds(m, dispatcher.LaneDisabled) }, func(m *model) { sceneLineEnds(m, dispatcher.LaneDeleted) },
}

// publishTo publishes a message to one lane. It is not leased at once.
func (m *model) publishTo(id string, lane dispatcher.Lane, change func(*dispatcher.Message)) dispatcher.DeliveryID {
	m.Helper()
	m.publish(&publishing{by: redisqtest.One}, []dispatcher.Entry{m.Entry(id, []dispatcher.Lane{lane}, change)})
	return redisqtest.Named(lane, id)
}

func plain(*dispatcher.Message)       {}
func ordered(msg *dispatcher.Message) { msg.OrderingKey = "k" }
func delayed(msg *dispatcher.Message) { msg.Delay = time.Hour }
func (m *model) soon(msg *dispatcher.Message) {
	msg.ExpiresAt = m.Now.Truncate(time.Millisecond).Add(10 * time.Second)
}

// claimSome claims up to n deliveries with all permits of an instance.
func (m *model) claimSome(by string, n int) []dispatcher.Claimed {
	m.Helper()
	return m.claimAs(by, m.All(), n, m.Setup.Permits)
}

// claimOne claims one delivery.
func (m *model) claimOne(by string) dispatcher.Claimed {
	m.Helper()
	return m.claimSome(by, 1)[0]
}

func (m *model) settleOne(by string, s dispatcher.Settlement) {
	m.Helper()
	m.settleAs(by, []dispatcher.Settlement{s})
}

// hold disables or deletes the endpoint of a lane.
func (m *model) hold(lane dispatcher.Lane, mode dispatcher.LaneMode) {
	m.Helper()
	m.limitLane(lane, m.newLimits(lane, redisqtest.Mode(mode)), false)
}

func scenePublish(m *model) {
	m.hold(redisqtest.EpOne, dispatcher.LaneDisabled)
	m.hold(redisqtest.EpTwo, dispatcher.LaneDeleted)
	m.publishTo("m1", redisqtest.EpOne, plain)
	m.publishTo("m2", redisqtest.EpTwo, plain)
	m.publishTo("m3", "a", delayed)
	m.publish(&publishing{by: redisqtest.One, free: m.Setup.Permits, lease: 1}, []dispatcher.Entry{m.Entry("m4", []dispatcher.Lane{"b"}, plain)})
	m.passBy(time.Hour)
	m.moveAll(redisqtest.One)
}

// sceneAttempts settles one delivery each way, and forgets the ended ones.
func sceneAttempts(m *model) {
	for i, outcome := range []func(dispatcher.Claimed) dispatcher.Settlement{
		redisqtest.Success,
		func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Failure(c, time.Hour) },
		func(c dispatcher.Claimed) dispatcher.Settlement { return redisqtest.Death(c, dispatcher.ReasonGone) },
		func(c dispatcher.Claimed) dispatcher.Settlement {
			s := redisqtest.HandBack(c)
			s.Stalled, s.Wait = dispatcher.WhySealed, 10*time.Second
			return s
		},
		func(c dispatcher.Claimed) dispatcher.Settlement {
			s := redisqtest.HandBack(c)
			s.Due = m.Now.Truncate(time.Millisecond)
			return s
		},
	} {
		m.publishTo("m"+string(rune('1'+i)), "a", plain)
		m.settleOne(redisqtest.One, outcome(m.claimOne(redisqtest.One)))
		m.compare()
	}
	m.cancelSome([]dispatcher.DeliveryID{redisqtest.Named("a", "m4"), redisqtest.Named("a", "m5")})
	m.passBy(100 * 24 * time.Hour)
	m.trimAs(redisqtest.KeepNothing, false)
}

// sceneMarks cancels a delivery in flight, and lets it fail.
func sceneMarks(m *model) {
	m.publishTo("m1", "a", plain)
	c := m.claimOne(redisqtest.One)
	m.cancelSome([]dispatcher.DeliveryID{c.ID})
	m.settleOne(redisqtest.One, redisqtest.Failure(c, time.Hour))
}

// sceneLate lets attempts succeed after their instance was declared dead. One
// delivery is ready, one waits for its time, and one is leased again.
func sceneLate(m *model) {
	m.publishTo("m1", "a", plain)
	ready := m.claimOne(redisqtest.One)
	m.publishTo("m2", "b", plain)
	due := m.claimOne(redisqtest.One)
	m.publishTo("m3", redisqtest.EpOne, plain)
	leased := m.claimOne(redisqtest.One)
	m.declareDead(redisqtest.One)
	for _, c := range m.claimSome(redisqtest.Two, 3) {
		if c.ID == due.ID {
			m.settleOne(redisqtest.Two, redisqtest.Failure(c, time.Hour))
		}
	}
	m.settleOne(redisqtest.One, redisqtest.Success(due))
	m.settleOne(redisqtest.One, redisqtest.Success(leased))
	m.compare()
	m.declareDead(redisqtest.Two) // the leased one ends by its mark, the ready one comes back
	m.settleOne(redisqtest.One, redisqtest.Success(ready))
	m.claimSome(m.instances[0], 1)
}

// sceneLateBehind sends a delivered delivery again, behind another one of its
// key. Then an earlier attempt succeeds late.
func sceneLateBehind(m *model) {
	first := m.publishTo("m1", "a", ordered)
	m.publishTo("m2", "a", ordered)
	late := m.claimOne(redisqtest.One)
	m.declareDead(redisqtest.One)
	m.settleOne(redisqtest.Two, redisqtest.Success(m.claimOne(redisqtest.Two)))
	m.retrySome([]dispatcher.DeliveryID{first}, true)
	m.settleOne(redisqtest.One, redisqtest.Success(late))
}

// sceneInstanceDies declares an instance dead that leases a delivery of a
// disabled and of a deleted endpoint.
func sceneInstanceDies(m *model) {
	m.publishTo("m1", redisqtest.EpOne, plain)
	m.publishTo("m2", redisqtest.EpTwo, plain)
	m.claimSome(redisqtest.One, 2)
	m.hold(redisqtest.EpOne, dispatcher.LaneDisabled)
	m.hold(redisqtest.EpTwo, dispatcher.LaneDeleted)
	m.declareDead(redisqtest.One)
}

// sceneSuspects lets the second suspect of a lane wait.
func sceneSuspects(m *model) {
	m.publishTo("m1", "a", plain)
	m.publishTo("m2", "a", plain)
	for range 2 {
		by := m.instances[0]
		m.claimSome(by, 2)
		m.declareDead(by)
	}
	m.claimSome(m.instances[0], 2)
}

// sceneConsumers ends leases of consumers by time and by an outcome.
func sceneConsumers(m *model) {
	take := dispatcher.Take{Lanes: []dispatcher.Lane{"q_q"}, Most: 1, Bytes: 1 << 20, Suspects: 1}
	lease := take
	lease.For, lease.Token, lease.Owner = 30*time.Second, "t1", "o1"
	m.publishTo("m1", "q_q", plain)
	c := m.takeAs(redisqtest.One, lease)[0]
	m.adoptAs(redisqtest.One, []dispatcher.TakenLease{{ID: c.ID, Token: "t1", Owner: "o1"}})
	m.publishTo("m2", "q_q", plain)
	m.takeAs(redisqtest.One, lease)
	m.passBy(time.Minute)
	m.moveAll(redisqtest.One)
	m.declareDead(redisqtest.One)
	m.settleOne(redisqtest.One, redisqtest.Success(c))
	m.compare()
	take.Most = 2
	m.takeAs(redisqtest.Two, take)
}

// sceneSuspectIsTaken lets a suspect wait that a consumer would take beside
// another one.
func sceneSuspectIsTaken(m *model) {
	m.publishTo("m1", "q_q", plain)
	take := dispatcher.Take{Lanes: []dispatcher.Lane{"q_q"}, Most: 1, Bytes: 1 << 20, Suspects: 1}
	for range 2 {
		by := m.instances[0]
		m.takeAs(by, take)
		m.declareDead(by)
	}
	take.Suspects = 0
	m.takeAs(m.instances[0], take)
}

// sceneExpiry ends expired deliveries by each script that may find them first.
func sceneExpiry(m *model) {
	m.publishTo("m1", "a", m.soon)
	m.publishTo("m2", "q_q", m.soon)
	m.publishTo("m3", "b", m.soon)
	m.publishTo("m4", "b", func(msg *dispatcher.Message) {
		m.soon(msg)
		msg.OrderingKey, msg.Delay = "k", 5*time.Second
	})
	m.publishTo("m5", "b", func(msg *dispatcher.Message) {
		m.soon(msg)
		msg.OrderingKey = "k"
	})
	m.passBy(time.Minute)
	m.claimSome(redisqtest.One, 1)
	m.takeAs(redisqtest.One, dispatcher.Take{Lanes: []dispatcher.Lane{"q_q"}, Most: 1, Bytes: 1 << 20})
	m.compare()
	m.moveAll(redisqtest.One)
}

// sceneExpiredBehind ends deliveries that wait behind others when their message
// expires. One of them is in the lane of a deleted endpoint.
func sceneExpiredBehind(m *model) {
	for _, lane := range []dispatcher.Lane{"a", redisqtest.EpOne} {
		m.publishTo("m1-"+string(lane), lane, ordered)
		m.publishTo("m2-"+string(lane), lane, func(msg *dispatcher.Message) {
			m.soon(msg)
			msg.OrderingKey = "k"
		})
	}
	m.claimSome(redisqtest.One, 2)
	m.hold(redisqtest.EpOne, dispatcher.LaneDeleted)
	m.passBy(time.Minute)
	m.moveAll(redisqtest.One)
}

// sceneCancelAndRetry cancels waiting deliveries, and sends ended ones again,
// also behind others of their key.
func sceneCancelAndRetry(m *model) {
	ready := m.publishTo("m0", "a", func(*dispatcher.Message) {})
	m.rescheduleSome([]dispatcher.DeliveryID{ready}, m.Now.Add(time.Minute))
	m.compare()
	m.rescheduleSome([]dispatcher.DeliveryID{ready}, m.Now)
	m.moveAll(redisqtest.One)
	m.settleOne(redisqtest.One, redisqtest.Success(m.claimOne(redisqtest.One)))
	due := m.publishTo("m1", "a", delayed)
	m.retrySome([]dispatcher.DeliveryID{due}, false)
	m.rescheduleSome([]dispatcher.DeliveryID{due}, m.Now.Add(time.Minute)) // a person asked for an attempt now
	m.settleOne(redisqtest.One, redisqtest.Success(m.claimOne(redisqtest.One)))
	m.retrySome([]dispatcher.DeliveryID{due}, true)
	m.settleOne(redisqtest.One, redisqtest.Death(m.claimOne(redisqtest.One), dispatcher.ReasonGone))
	m.retrySome([]dispatcher.DeliveryID{due}, false)
	m.cancelSome([]dispatcher.DeliveryID{due})
	m.retrySome([]dispatcher.DeliveryID{due}, false)
	m.cancelSome([]dispatcher.DeliveryID{due, m.publishTo("m2", "a", delayed)})
	m.compare()
	first, second, third := m.publishTo("m3", "b", ordered), m.publishTo("m4", "b", ordered), m.publishTo("m5", "b", ordered)
	m.cancelSome([]dispatcher.DeliveryID{third})
	m.retrySome([]dispatcher.DeliveryID{third}, false)
	m.settleOne(redisqtest.One, redisqtest.Death(m.claimOne(redisqtest.One), dispatcher.ReasonGone))
	m.retrySome([]dispatcher.DeliveryID{first}, false)
	m.settleOne(redisqtest.One, redisqtest.Success(m.claimOne(redisqtest.One)))
	m.retrySome([]dispatcher.DeliveryID{second}, true)
}

// sceneLines releases the next delivery of a key: one that is due later, then
// one that is due.
func sceneLines(m *model) {
	m.publishTo("m1", "a", ordered)
	m.publishTo("m2", "a", func(msg *dispatcher.Message) { msg.OrderingKey, msg.Delay = "k", time.Hour })
	m.publishTo("m3", "a", ordered)
	m.settleOne(redisqtest.One, redisqtest.Success(m.claimOne(redisqtest.One)))
	m.compare()
	m.cancelSome([]dispatcher.DeliveryID{redisqtest.Named("a", "m2")})
}

// sceneEndpointEnds ends the waiting deliveries of a disabled or deleted
// endpoint by a move and by a sweep.
func sceneEndpointEnds(m *model, mode dispatcher.LaneMode) {
	m.publishTo("m1", redisqtest.EpOne, plain)
	m.publishTo("m2", redisqtest.EpOne, delayed)
	m.hold(redisqtest.EpOne, mode)
	m.passBy(2 * time.Hour)
	m.moveAll(redisqtest.One)
	m.compare()
	m.publishTo("m3", redisqtest.EpTwo, delayed)
	m.hold(redisqtest.EpTwo, mode)
	m.sweepLane(redisqtest.EpTwo)
}

// sceneLineEnds ends the next delivery of a key because its endpoint is disabled or deleted in
// the meantime.
func sceneLineEnds(m *model, mode dispatcher.LaneMode) {
	m.publishTo("m1", redisqtest.EpOne, ordered)
	m.publishTo("m2", redisqtest.EpOne, ordered)
	c := m.claimOne(redisqtest.One)
	m.hold(redisqtest.EpOne, mode)
	m.settleOne(redisqtest.One, redisqtest.Success(c))
}
