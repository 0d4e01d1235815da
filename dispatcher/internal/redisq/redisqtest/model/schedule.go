package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The steps that publish messages.

func (m *model) doSchedule() {
	m.Helper()
	batch := m.repeated()
	for range 1 + m.rng.IntN(4) {
		e := m.someEntry()
		if m.Setup.Partitions > 1 && among(batch, e) {
			continue // two entries of one id may conflict in one partition and not in another
		}
		batch = append(batch, e)
	}
	by, free, lease := m.someInstance(), m.rng.IntN(12), m.rng.IntN(4)
	if m.Setup.Permits < 12 {
		free = m.free(by)
	}
	m.publish(&publishing{by: by, free: free, lease: lease}, batch)
}

// publish publishes entries, and checks their results.
func (m *model) publish(p *publishing, batch []dispatcher.Entry) {
	m.Helper()
	by, free, lease := p.by, p.free, p.lease
	for _, e := range batch {
		m.logf("schedule by %s free %d lease %d: %s to %v fan %v key %q, delay %s at %d, expires %d, %s", by, free, lease,
			e.Message.ID, e.Lanes, e.Fan, e.Message.OrderingKey, e.Message.Delay, e.Message.DeliverAt.UnixMilli(),
			e.Message.ExpiresAt.UnixMilli(), e.Message.Body[:min(len(e.Message.Body), 20)])
	}
	m.calls("schedule")
	got, hints, err := m.Queue.Schedule(m.Ctx, by, free, lease, batch)
	require.NoError(m, err)
	require.Len(m, got, len(batch))
	m.MustBeCurrent(hints)
	p.state = m.State()
	for i, e := range batch {
		switch {
		case m.trouble.full && got[i].Err != nil:
			require.ErrorIs(m, got[i].Err, dispatcher.ErrFull, "%s", e.Message.ID)
		case m.trouble.full:
			require.NotEqual(m, dispatcher.Accepted, got[i].Result, "%s", e.Message.ID)
			m.scheduled(p, e, got[i])
		case m.went(got[i].Err):
			m.scheduled(p, e, got[i])
		default:
			m.partly(p, e, got[i])
		}
		if got[i].Err != nil && !among(m.refused, e) && len(m.refused) < 8 {
			m.refused = append(m.refused, e)
		}
	}
}

func among(batch []dispatcher.Entry, e dispatcher.Entry) bool {
	return slices.ContainsFunc(batch, func(other dispatcher.Entry) bool { return other.Message.ID == e.Message.ID })
}

// repeated returns the entries that were not returned as accepted, but only
// sometimes. They are published again, so that the store completes them.
func (m *model) repeated() []dispatcher.Entry {
	if len(m.refused) == 0 || m.rng.IntN(2) == 0 {
		return nil
	}
	batch := m.refused
	m.refused = nil
	for i := range batch {
		again := *batch[i].Message
		again.CreatedAt = m.Now
		batch[i].Message = &again
	}
	return batch
}

// someEntry returns a new entry, a repeat, or an entry in conflict with a
// stored message.
func (m *model) someEntry() dispatcher.Entry {
	lanes := slices.Clone(modelLanes)
	m.rng.Shuffle(len(lanes), func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] })
	id := fmt.Sprintf("m%d", m.Serial)
	if m.Serial > 0 && m.rng.IntN(5) == 0 {
		id = fmt.Sprintf("m%d", m.rng.IntN(m.Serial))
	} else {
		m.Serial++
	}
	e := m.Entry(id, lanes[:pick(m.rng, 1, 1, 1, 2, 3)], func(msg *dispatcher.Message) {
		msg.Delay = pick(m.rng, 0, 0, 0, time.Millisecond, 5*time.Second, time.Hour)
		msg.OrderingKey = pick(m.rng, "", "", "", "k", "l")
		if m.rng.IntN(6) == 0 {
			msg.DeliverAt = m.Now.Add(pick(m.rng, -time.Hour, 0, 1500*time.Microsecond, time.Minute))
		}
		if m.rng.IntN(8) == 0 {
			msg.ExpiresAt = m.Now.Truncate(time.Millisecond).Add(pick(m.rng, time.Millisecond, 10*time.Second, 2*time.Hour))
		}
		msg.Subject = pick(m.rng, "", "", "order 17", "order "+id, "a refund", "order_104711", "#94711")
		if m.rng.IntN(12) == 0 {
			msg.Body = []byte("other")
		}
		if m.rng.IntN(8) == 0 {
			msg.Body = redisqtest.LargeBody(pick(m.rng, dispatcher.ApartAbove, dispatcher.ApartAbove+1))
		}
	})
	if len(e.Lanes) == 1 && e.Lanes[0].IsQueue() { // a queue mixes tenants
		e.Message.Tenant = pick(m.rng, "t1", "t2", "")
		e.Digest = e.Message.Digest()
	}
	e.Fan = len(e.Lanes) > 1 || m.rng.IntN(2) == 0
	return e
}

// publishing is one call of schedule: the leases it may still give, and the
// state of the store after it.
type publishing struct {
	by          string
	free, lease int
	state       redisqtest.State
}

// scheduled checks one entry's result, partition by partition.
func (m *model) scheduled(p *publishing, e dispatcher.Entry, got dispatcher.ScheduleResult) {
	m.Helper()
	if m.inConflict(e, got.Result) {
		require.Equal(m, dispatcher.ScheduleResult{Result: dispatcher.Conflict}, got, "%s", e.Message.ID)
		return
	}
	results := map[dispatcher.Result]bool{}
	want := map[dispatcher.Lane]dispatcher.Placed{}
	for _, n := range m.All() {
		lanes := m.lanesIn(e, n)
		if len(lanes) == 0 {
			continue
		}
		result, lanes, due := m.accept(p, recordKey{n, e.Message.ID}, e, lanes)
		results[result] = true
		from := due
		if result == dispatcher.Accepted && e.Message.Delay == 0 && e.Message.DeliverAt.IsZero() {
			from = m.from()
		}
		for _, lane := range lanes {
			m.place(p, e, lane, due)
			want[lane] = m.placed(from, m.deliveries[redisqtest.Named(lane, e.Message.ID)])
		}
	}
	require.Contains(m, results, got.Result, "%s", e.Message.ID)
	require.Len(m, got.Placed, len(e.Lanes), "%s", e.Message.ID)
	for i, lane := range e.Lanes {
		p := want[lane]
		p.Lane = lane
		if lane.IsEndpoint() {
			p.Version = m.limits[lane].Version
		}
		p.NewLane = p.Status == dispatcher.StatusInFlight && m.lane(lane).slow == redisqtest.NewLane
		require.Equal(m, p, got.Placed[i], "%s in %s", e.Message.ID, lane)
	}
	m.leased(p, e, got)
}

// partly checks one entry's result if only some of its partitions replied. Each
// of them did all of it or nothing, so that a repeat completes it.
func (m *model) partly(p *publishing, e dispatcher.Entry, got dispatcher.ScheduleResult) {
	m.Helper()
	for _, n := range m.cameTo() {
		lanes, key := m.lanesIn(e, n), recordKey{n, e.Message.ID}
		old := m.messages[key]
		if len(lanes) == 0 || old != nil && old.digest != e.Digest {
			continue
		}
		_, lanes, due := m.accept(p, key, e, lanes)
		for _, lane := range lanes {
			m.place(p, e, lane, due)
		}
	}
	m.leased(p, e, got)
}

// leased remembers the deliveries that a publish leased directly.
func (m *model) leased(p *publishing, e dispatcher.Entry, got dispatcher.ScheduleResult) {
	m.Helper()
	for _, d := range got.Placed {
		if d.Status != dispatcher.StatusInFlight {
			continue
		}
		id := redisqtest.Named(d.Lane, e.Message.ID)
		require.Equal(m, redisqtest.Found{Place: redisqtest.PlaceLeased, At: m.ms(), Holder: p.by}, m.deliveries[id].Found, "%s", id)
		m.claims = append(m.claims, holding{by: p.by, claimed: dispatcher.Claimed{
			ID: id, Message: m.messages[recordKey{m.Partition(d.Lane), id.Message}].message, Attempt: 1, Rung: 1, First: true,
			Leased: d.At,
		}})
		require.Equal(m, m.ms(), d.At.UnixMilli(), "%s", id)
	}
}

// lanesIn returns the lanes of an entry in a partition.
func (m *model) lanesIn(e dispatcher.Entry, partition int) (lanes []dispatcher.Lane) {
	for _, lane := range e.Lanes {
		if m.Partition(lane) == partition {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

// placed returns a new delivery as the result of a publish should have it.
func (m *model) placed(due int64, d *modelDelivery) (p dispatcher.Placed) {
	now := time.UnixMilli(m.ms()).UTC()
	switch d.Place {
	case redisqtest.PlaceLeased:
		p.Status, p.At = dispatcher.StatusInFlight, now
	case redisqtest.PlaceReady:
		p.Status = dispatcher.StatusReady
	case redisqtest.PlaceDue, redisqtest.PlaceBehind:
		p.Status = dispatcher.StatusScheduled
	case redisqtest.PlaceCancelled:
		p.Status, p.At = dispatcher.StatusCancelled, now
	case redisqtest.PlaceDead:
		p.Status, p.At, p.Reason = dispatcher.StatusDead, now, d.progress.Reason
	}
	if !p.Status.Ended() && d.Place != redisqtest.PlaceBehind {
		p.Due = time.UnixMilli(due).UTC()
	}
	return p
}

// inConflict reports whether an entry has other content than a stored message
// of its id. The store need not see that in a partition without a lane of the
// entry.
func (m *model) inConflict(e dispatcher.Entry, got dispatcher.Result) bool {
	for _, n := range m.All() {
		old := m.messages[recordKey{n, e.Message.ID}]
		if old == nil || old.digest == e.Digest {
			continue
		}
		goes := slices.ContainsFunc(e.Lanes, func(lane dispatcher.Lane) bool { return m.Partition(lane) == n })
		if goes || got == dispatcher.Conflict {
			return true
		}
	}
	return false
}

// accept keeps one partition's share of an entry. It returns the lanes to make
// and their due time.
func (m *model) accept(p *publishing, key recordKey, e dispatcher.Entry, lanes []dispatcher.Lane) (dispatcher.Result, []dispatcher.Lane, int64) {
	due := m.from() + e.Message.Delay.Milliseconds()
	if !e.Message.DeliverAt.IsZero() {
		due = max(ceilMillis(e.Message.DeliverAt), m.ms())
	} else if e.Message.Delay == 0 {
		due = m.ms()
	}
	full := func(msg *modelMessage, lane dispatcher.Lane) bool {
		return !e.Fan && !m.ended(lane) && m.full(lane) && !m.mayLease(p, msg, redisqtest.Named(lane, e.Message.ID), due)
	}
	msg, result := m.messages[key], dispatcher.Duplicate
	if msg == nil {
		result = dispatcher.Accepted
		msg = &modelMessage{message: e.Message, digest: e.Digest, due: due, whole: true, lanes: map[dispatcher.Lane]bool{}}
		if e.Message.Delay == 0 && e.Message.DeliverAt.IsZero() || due == m.ms() {
			msg.due = m.from() // a record has whole ms, and no attempt may be early
		}
		if full(msg, lanes[0]) {
			return dispatcher.LaneFull, nil, 0
		}
		m.messages[key] = msg
	} else {
		due = max(msg.due, m.ms())
	}
	var made []dispatcher.Lane
	for _, lane := range lanes {
		if _, named := msg.lanes[lane]; !named && msg.whole && !full(msg, lane) {
			msg.lanes[lane] = true
			made = append(made, lane)
		}
	}
	return result, made, due
}

// full reports whether the waiting deliveries of a lane have reached their
// limit.
func (m *model) full(lane dispatcher.Lane) bool {
	return m.Setup.MaxWaiting > 0 && m.waitingIn(lane) >= m.Setup.MaxWaiting
}

// mayLease reports whether a new delivery is leased directly. With several
// partitions the store may divide the permits between them in any way. So there
// it only checks that a lease is allowed.
func (m *model) mayLease(p *publishing, msg *modelMessage, id dispatcher.DeliveryID, due int64) bool {
	l := m.view(id.Lane)
	may := due <= m.ms() && p.lease > 0 && !m.isFenced(p.by, m.Partition(id.Lane)) && len(m.ready[id.Lane]) == 0 && !m.expired(msg) &&
		m.Setup.Light(m.Setup.Weight(l.Slow, l.InFlight), p.free) && !m.allPaused[m.Partition(id.Lane)] &&
		l.Limits.Mode == dispatcher.LaneNormal && !l.Limits.Pull && (l.Limited || !id.Lane.IsEndpoint()) &&
		l.InFlight < l.Slots(m.Setup) && l.Until <= m.ms() && l.Egress == 0 && l.Tokens(m.Now.UnixMicro()) > 0 &&
		len(m.sets[m.setOf(id, msg)]) == 0
	if m.Setup.Partitions > 1 && may {
		may = p.state.At(id).Place == redisqtest.PlaceLeased
	}
	return may
}

// place puts a new delivery into its place.
func (m *model) place(p *publishing, e dispatcher.Entry, lane dispatcher.Lane, due int64) {
	m.Helper()
	id, d := redisqtest.Named(lane, e.Message.ID), &modelDelivery{}
	m.deliveries[id] = d
	msg := m.messages[recordKey{m.Partition(id.Lane), id.Message}]
	if m.ended(id.Lane) {
		m.giveUp(id)
		return
	}
	may := m.mayLease(p, msg, id, due)
	if e.Fan && !may && m.full(id.Lane) {
		m.die(id, dispatcher.ReasonOverflow)
		return
	}
	m.lane(id.Lane)
	switch {
	case m.join(id):
	case due > m.ms():
		m.moveTo(id, redisqtest.Found{Place: redisqtest.PlaceDue, At: due})
	case may:
		m.spend(id.Lane, 1)
		m.moveTo(id, redisqtest.Found{Place: redisqtest.PlaceLeased, At: m.ms(), Holder: p.by})
		p.free, p.lease = p.free-1, p.lease-1
	default:
		m.toReady(id, min(due, m.ms()), false)
	}
}

func (m *model) expired(msg *modelMessage) bool {
	at := msg.message.ExpiresAt
	return !at.IsZero() && at.UnixMilli() <= m.ms()
}
