package queuetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// What the model does to put work in and to take it out: schedule, move, claim.

func (m *model) doSchedule() {
	m.Helper()
	var batch []dispatcher.Entry
	for range 1 + m.rng.IntN(4) {
		batch = append(batch, m.someEntry())
	}
	by, free, lease := m.someInstance(), m.rng.IntN(12), m.rng.IntN(4)
	if m.setup.Permits < 12 {
		free = m.free(by)
	}
	for _, e := range batch {
		m.logf("schedule by %s free %d lease %d: %s to %v, delay %s at %d, expires %d, %s", by, free, lease,
			e.Message.ID, e.Lanes, e.Message.Delay, e.Message.DeliverAt.UnixMilli(), e.Message.ExpiresAt.UnixMilli(), e.Message.Body)
	}
	got := m.scheduleFor(by, free, lease, batch...)
	state := m.State()
	for i, e := range batch {
		m.scheduled(by, &free, &lease, e, got[i], state)
	}
}

// someEntry is new, a repeat, or in conflict with what there is.
func (m *model) someEntry() dispatcher.Entry {
	lanes := slices.Clone(modelLanes)
	m.rng.Shuffle(len(lanes), func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] })
	id := fmt.Sprintf("m%d", m.serial)
	if m.serial > 0 && m.rng.IntN(5) == 0 {
		id = fmt.Sprintf("m%d", m.rng.IntN(m.serial))
	} else {
		m.serial++
	}
	return m.entry(id, lanes[:pick(m.rng, 1, 1, 1, 2, 3)], func(msg *dispatcher.Message) {
		msg.Delay = pick(m.rng, 0, 0, 0, time.Millisecond, 5*time.Second, time.Hour)
		if m.rng.IntN(6) == 0 {
			msg.DeliverAt = m.now.Add(pick(m.rng, -time.Hour, 0, 1500*time.Microsecond, time.Minute))
		}
		if m.rng.IntN(8) == 0 {
			msg.ExpiresAt = m.now.Truncate(time.Millisecond).Add(pick(m.rng, time.Millisecond, 10*time.Second, 2*time.Hour))
		}
		if m.rng.IntN(12) == 0 {
			msg.Body = []byte("other")
		}
	})
}

// scheduled is what one entry should have done, partition by partition.
func (m *model) scheduled(by string, free, lease *int, e dispatcher.Entry, got dispatcher.Scheduled, state State) {
	m.Helper()
	require.NoError(m, got.Err)
	results := map[dispatcher.Result]bool{}
	var leased, ready []dispatcher.Lane
	for _, n := range m.all() {
		var lanes []dispatcher.Lane
		for _, lane := range e.Lanes {
			if m.Partition(lane) == n {
				lanes = append(lanes, lane)
			}
		}
		if len(lanes) == 0 {
			continue
		}
		result, make, due := m.accept(recordKey{n, e.Message.ID}, e, lanes)
		results[result] = true
		for _, lane := range make {
			switch m.place(by, free, lease, named(lane, e.Message.ID), due, state) {
			case PlaceLeased:
				leased = append(leased, lane)
			case PlaceReady:
				ready = append(ready, lane)
			}
		}
	}
	want := dispatcher.Duplicate
	switch {
	case results[dispatcher.Conflict]:
		want = dispatcher.Conflict
	case results[dispatcher.Accepted]:
		want = dispatcher.Accepted
	}
	require.Equal(m, want, got.Result, "%s", e.Message.ID)
	if m.setup.Partitions == 1 {
		require.Equal(m, leased, got.Leased, "%s", e.Message.ID)
		require.Equal(m, ready, got.Ready, "%s", e.Message.ID)
	}
}

// accept keeps one partition's share of an entry. It answers the lanes that are
// to be made, and when they are due.
func (m *model) accept(key recordKey, e dispatcher.Entry, lanes []dispatcher.Lane) (dispatcher.Result, []dispatcher.Lane, int64) {
	due := m.from() + e.Message.Delay.Milliseconds()
	if !e.Message.DeliverAt.IsZero() {
		due = ceilMillis(e.Message.DeliverAt)
	} else if e.Message.Delay == 0 {
		due = m.ms()
	}
	old := m.messages[key]
	if old == nil {
		msg := &modelMessage{message: e.Message, digest: e.Digest, due: due, whole: true, lanes: map[dispatcher.Lane]bool{}}
		if e.Message.Delay == 0 && e.Message.DeliverAt.IsZero() {
			msg.due = m.from() // a record has whole ms, and must not be early
		}
		for _, lane := range lanes {
			msg.lanes[lane] = true
		}
		m.messages[key] = msg
		return dispatcher.Accepted, lanes, due
	}
	if old.digest != e.Digest {
		return dispatcher.Conflict, nil, 0
	}
	var added []dispatcher.Lane
	for _, lane := range lanes {
		if _, named := old.lanes[lane]; !named && old.whole {
			old.lanes[lane] = true
			added = append(added, lane)
		}
	}
	return dispatcher.Duplicate, added, old.due
}

// place puts a new delivery where it belongs. With several partitions the store
// divides the permits between them as it likes, so there a direct lease is only
// checked to be allowed.
func (m *model) place(by string, free, lease *int, id dispatcher.DeliveryID, due int64, state State) Place {
	m.Helper()
	l := m.lane(id.Lane)
	d := &modelDelivery{}
	m.deliveries[id] = d
	msg := m.messages[recordKey{m.Partition(id.Lane), id.Message}]
	may := due <= m.ms() && *lease > 0 && !m.isFenced(by) && len(m.ready[id.Lane]) == 0 &&
		m.inFlight(id.Lane) < l.window && m.light(m.setup.weight(l.slow, m.inFlight(id.Lane)), *free) && !m.expired(msg)
	if m.setup.Partitions > 1 && may {
		may = state.At(id).Place == PlaceLeased
	}
	switch {
	case due > m.ms():
		d.Found = Found{Place: PlaceDue, At: due}
	case may:
		d.Found = Found{Place: PlaceLeased, At: m.ms(), Holder: by}
		*free, *lease = *free-1, *lease-1
		m.held = append(m.held, holding{by: by, claimed: dispatcher.Claimed{ID: id, Message: msg.message, Attempt: 1, Rung: 1, First: true}})
	default:
		m.toReady(id, min(due, m.ms()), false)
	}
	return d.Place
}

func (m *model) expired(msg *modelMessage) bool {
	at := msg.message.ExpiresAt
	return !at.IsZero() && at.UnixMilli() <= m.ms()
}

// free is how many permits an instance has left, by what the store says it holds.
func (m *model) free(by string) int {
	free := m.setup.Permits
	for _, d := range m.deliveries {
		if d.Place == PlaceLeased && d.Holder == by {
			free--
		}
	}
	return max(0, free)
}

func (m *model) doMove() {
	m.Helper()
	m.logf("move")
	m.moveAll()
}

func (m *model) moveAll() {
	m.Helper()
	_, err := m.Queue.Move(m.ctx, m.instances[0], m.all())
	require.NoError(m, err)
	var due []dispatcher.DeliveryID
	for _, id := range sortedIDs(m.deliveries) {
		if d := m.deliveries[id]; d.Place == PlaceDue && d.At <= m.ms() {
			due = append(due, id)
		}
	}
	slices.SortStableFunc(due, func(a, b dispatcher.DeliveryID) int {
		return cmp.Compare(m.deliveries[a].At, m.deliveries[b].At)
	})
	for _, id := range due {
		m.lane(id.Lane)
		m.toReady(id, m.deliveries[id].At, false)
	}
}

func (m *model) doClaim() {
	m.Helper()
	by := m.someInstance()
	free := m.free(by)
	if m.setup.Permits > 12 && m.rng.IntN(2) == 0 {
		free = m.rng.IntN(12)
	}
	if free == 0 {
		return
	}
	wanted := 1 + m.rng.IntN(min(free, 8))
	if !m.isFenced(by) {
		m.claimAs(by, m.all(), wanted, free)
		return
	}
	m.logf("claim by %s, who is fenced", by)
	got, _, err := m.Queue.Claim(m.ctx, by, m.all(), wanted, free)
	require.ErrorIs(m, err, dispatcher.ErrFenced)
	require.Empty(m, got)
}

// claimAs claims, and checks that what was taken is what had to be taken.
func (m *model) claimAs(by string, partitions []int, wanted, free int) []dispatcher.Claimed {
	m.Helper()
	before := m.State()
	got, hints, err := m.Queue.Claim(m.ctx, by, partitions, wanted, free)
	require.NoError(m, err)
	m.logf("claim by %s, %d wanted, %d free, from %v: %v", by, wanted, free, partitions, claimedIDs(got))
	after := m.State()
	taken := map[dispatcher.Lane]int{}
	byLane := map[dispatcher.Lane][]dispatcher.Claimed{}
	for _, c := range got {
		byLane[c.ID.Lane] = append(byLane[c.ID.Lane], c)
	}
	ended, sum := 0, 0
	turns := m.turnsOf(before)
	for _, lane := range modelLanes {
		left := len(after.Ready[lane])
		list := m.ready[lane]
		require.LessOrEqual(m, left, len(list), "lane %s has more ready than before", lane)
		taken[lane] = len(list) - left
		sum += taken[lane]
		ended += m.take(by, lane, list[:taken[lane]], byLane[lane])
		m.ready[lane] = list[taken[lane]:]
	}
	require.LessOrEqual(m, sum, wanted)
	told := 0
	for _, h := range hints {
		told += h.Ended
		require.Zero(m, h.Lost)
	}
	require.Equal(m, ended, told, "the hints tell how many ended instead")
	m.checkTurns(turns, taken, partitions, wanted, free)
	return got
}

// take carries out what was taken from one lane: marked and expired ones ended,
// the others must be what was answered, in this order.
func (m *model) take(by string, lane dispatcher.Lane, taken []dispatcher.DeliveryID, got []dispatcher.Claimed) (ended int) {
	m.Helper()
	for _, id := range taken {
		d, msg := m.deliveries[id], m.messages[recordKey{m.Partition(lane), id.Message}]
		switch {
		case d.mark != MarkNone:
			m.carryOut(id)
			ended++
			continue
		case m.expired(msg):
			d.progress.Reason = dispatcher.ReasonExpired
			m.end(id, PlaceDead)
			ended++
			continue
		}
		require.NotEmpty(m, got, "%s was taken, but not answered", id)
		c := got[0]
		got = got[1:]
		require.Equal(m, id, c.ID)
		require.Equal(m, d.At, c.Due.UnixMilli(), "%s", id)
		require.LessOrEqual(m, d.At, m.ms(), "%s is early", id)
		require.Equal(m, d.progress.Attempts+1, c.Attempt, "%s", id)
		require.Equal(m, d.progress.Attempts-d.progress.Base+1, c.Rung, "%s", id)
		require.Equal(m, d.progress.Asked, c.Asked, "%s", id)
		require.Equal(m, string(msg.message.Body), string(c.Message.Body), "%s", id)
		d.Found = Found{Place: PlaceLeased, At: m.ms(), Holder: by}
		m.held = append(m.held, holding{by: by, claimed: c})
	}
	require.Empty(m, got, "more was answered than taken from lane %s", lane)
	return ended
}

// turn is how a lane stood before a claim.
type turn struct {
	lane     dispatcher.Lane
	weight   int
	at       int64
	inFlight int
}

// turnsOf are the lanes that may be claimed from, in the order of their turns.
func (m *model) turnsOf(s State) []turn {
	var turns []turn
	for _, lane := range modelLanes {
		if l := s.Lanes[lane]; l.Listed {
			turns = append(turns, turn{lane: lane, weight: l.Weight, at: l.Turn, inFlight: l.InFlight})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.at, b.at), cmp.Compare(a.lane, b.lane))
	})
	return turns
}

// checkTurns: lanes were taken from in their order, only while they were light
// enough, and nothing was left that could have been taken. With several
// partitions the store divides wanted and free as it likes: only the first rule
// is checked then, within each.
func (m *model) checkTurns(turns []turn, taken map[dispatcher.Lane]int, partitions []int, wanted, free int) {
	m.Helper()
	passed := map[int]dispatcher.Lane{}
	sum := 0
	for _, t := range turns {
		n := m.Partition(t.lane)
		sum += taken[t.lane]
		if taken[t.lane] == 0 {
			passed[n] = t.lane
			continue
		}
		require.Empty(m, passed[n], "lane %s was taken from, and not %s before it", t.lane, passed[n])
		l := m.lanes[t.lane]
		require.LessOrEqual(m, t.inFlight+taken[t.lane], max(l.window, t.inFlight), "lane %s is past its window", t.lane)
		require.True(m, m.light(m.setup.weight(l.slow, t.inFlight), free), "lane %s was too heavy", t.lane)
	}
	if len(partitions) > 1 || sum >= wanted {
		return
	}
	for _, t := range turns {
		l := m.lanes[t.lane]
		inFlight := t.inFlight + taken[t.lane]
		if m.Partition(t.lane) != partitions[0] || len(m.ready[t.lane]) == 0 || inFlight >= l.window {
			continue
		}
		require.False(m, m.light(m.setup.weight(l.slow, inFlight), free-sum), "lane %s could have been taken from", t.lane)
	}
}
