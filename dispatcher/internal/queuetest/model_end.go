package queuetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// What the model does to end work: settle, cancel, retry, reap, trim.

// doSettle settles some of what one instance believes to hold, or what another
// one holds.
func (m *model) doSettle() {
	m.Helper()
	if len(m.held) == 0 {
		return
	}
	by := pick(m.rng, m.held...).by
	foreign := m.rng.IntN(15) == 0
	var batch []dispatcher.Settlement
	known := map[dispatcher.DeliveryID]bool{}
	m.held = slices.DeleteFunc(m.held, func(h holding) bool {
		mine := h.by == by || foreign
		if !mine || known[h.claimed.ID] || len(batch) == 4 || m.rng.IntN(3) == 0 {
			return false
		}
		known[h.claimed.ID] = true
		batch = append(batch, m.someOutcome(h.claimed))
		return h.by == by && m.rng.IntN(10) > 0 // now and then the answer is lost, and it settles again
	})
	if len(batch) > 0 {
		m.settleAs(by, batch)
	}
}

func (m *model) someOutcome(c dispatcher.Claimed) dispatcher.Settlement {
	wait := pick(m.rng, 0, time.Millisecond, 15*time.Second, time.Hour)
	quick := time.Duration(m.rng.IntN(1300)) * time.Millisecond
	switch m.rng.IntN(8) {
	case 0, 1, 2:
		return took(success(c), quick)
	case 3:
		s := took(failure(c, wait), quick)
		s.Blame = m.rng.IntN(3) > 0
		return s
	case 4:
		if m.rng.IntN(2) == 0 {
			s := paused(c, wait, pick(m.rng, 1500*time.Microsecond, 2*time.Second, time.Minute))
			s.Blame = m.rng.IntN(2) == 0
			return s
		}
		s := silence(c, wait)
		s.Blame = m.rng.IntN(3) > 0
		return s
	case 5:
		return took(death(c, pick(m.rng, dispatcher.ReasonExhausted, dispatcher.ReasonGone)), quick)
	case 6:
		s := death(c, dispatcher.ReasonRefused)
		s.Attempt = dispatcher.Attempt{}
		return s
	default:
		s := handBack(c)
		s.Due = m.now.Truncate(time.Millisecond)
		return s
	}
}

func (m *model) settleAs(by string, batch []dispatcher.Settlement) {
	m.Helper()
	got, hints, err := m.Queue.Settle(m.ctx, by, batch)
	require.NoError(m, err)
	m.mustBeCurrent(hints)
	var fronts []dispatcher.Settlement
	m.opened, m.closed = map[dispatcher.Lane]int64{}, map[dispatcher.Lane]bool{}
	state := m.State()
	for i, s := range batch {
		m.logf("settle by %s: %s %s status %d took %s wait %s: %d", by, s.ID, s.Verdict, s.Attempt.Status, s.Attempt.Duration, s.Wait, got[i])
		m.logf("  blame %v pause %s", s.Blame, s.Pause)
		d := m.deliveries[s.ID]
		var want []dispatcher.Settled
		if d != nil && d.Place == PlaceLeased && d.Holder == by && !older(s, d) {
			want = []dispatcher.Settled{m.settled(s, d, &fronts)}
			if d.Place == PlaceDone && s.Verdict == dispatcher.Delivered {
				want = []dispatcher.Settled{dispatcher.SettledOK, dispatcher.SettledEnd}
			}
		} else {
			want = m.late(s, d, state)
		}
		require.Contains(m, want, got[i], "%s", s.ID)
	}
	slices.Reverse(fronts)
	for _, s := range fronts {
		m.toReady(s.ID, s.Due.UnixMilli(), true)
	}
	m.compareBreakers(hints)
}

// compareBreakers: the hints tell which breakers opened and closed.
func (m *model) compareBreakers(hints []dispatcher.Hint) {
	m.Helper()
	opened, closed := map[dispatcher.Lane]int64{}, map[dispatcher.Lane]bool{}
	for _, h := range hints {
		for _, o := range h.Opened {
			opened[o.Lane] = o.Until.UnixMilli()
		}
		for _, lane := range h.Closed {
			closed[lane] = true
		}
	}
	require.ElementsMatch(m, sortedKeys(m.opened), sortedKeys(opened))
	for lane, until := range opened { // a pause that came with it may last longer; a success may have closed it since
		want := m.lanes[lane].until
		if want == 0 {
			want = m.opened[lane]
		}
		require.Equal(m, want, until, "lane %s", lane)
	}
	require.Equal(m, m.closed, closed)
}

// older reports whether a settlement was made of an attempt before the one that
// is under way. One that ends whatever comes needs no such care.
func older(s dispatcher.Settlement, d *modelDelivery) bool {
	return s.Attempt.Number > 0 && s.Attempt.Number <= d.progress.Attempts && d.mark != MarkDelivered
}

// settled is the outcome of who holds the lease.
func (m *model) settled(s dispatcher.Settlement, d *modelDelivery, fronts *[]dispatcher.Settlement) dispatcher.Settled {
	m.learn(s)
	mark := d.mark
	switch {
	case mark == MarkDelivered || s.Verdict == dispatcher.Delivered:
		m.count(s, d)
		m.end(s.ID, PlaceDone)
	case mark == MarkCancelled:
		m.count(s, d)
		m.end(s.ID, PlaceCancelled)
	case s.Verdict == dispatcher.Back && m.ended(s.ID.Lane):
		m.giveUp(s.ID)
		return dispatcher.SettledEnd
	case s.Verdict == dispatcher.Back:
		*fronts = append(*fronts, s)
		return dispatcher.SettledOK
	case s.Verdict == dispatcher.Retry && m.ended(s.ID.Lane):
		m.count(s, d)
		m.giveUp(s.ID)
		return dispatcher.SettledEnd
	case s.Verdict == dispatcher.Retry:
		m.count(s, d)
		d.Found = Found{Place: PlaceDue, At: m.from() + s.Wait.Milliseconds()}
		return dispatcher.SettledOK
	default:
		m.count(s, d)
		if s.Attempt.Number == 0 {
			d.progress.Status = 0 // nothing was answered, since nothing was sent
		}
		m.die(s.ID, s.Reason)
		return dispatcher.SettledOK
	}
	if s.Verdict == dispatcher.Delivered {
		return dispatcher.SettledOK
	}
	return dispatcher.SettledEnd
}

// late is the outcome of who does not hold the lease. What an earlier outcome
// of the same call let go may be ended before or after it went.
func (m *model) late(s dispatcher.Settlement, d *modelDelivery, state State) []dispatcher.Settled {
	if s.Verdict != dispatcher.Delivered || d == nil || !d.Place.Waits() {
		return []dispatcher.Settled{dispatcher.SettledLate}
	}
	m.count(s, d)
	if d.Place == PlaceDue || d.Place == PlaceBehind || m.tookBack(s.ID, state.At(s.ID).Place == PlaceDone) {
		m.end(s.ID, PlaceDone)
	} else {
		d.mark = MarkDelivered
	}
	return []dispatcher.Settled{dispatcher.SettledDone}
}

// learn is what an attempt tells of its lane.
func (m *model) learn(s dispatcher.Settlement) {
	l := m.lane(s.ID.Lane)
	limit := m.setup.limit(m.limits[s.ID.Lane])
	l.window = min(l.window, limit)
	switch took := s.Attempt.Duration; {
	case s.Verdict == dispatcher.Back || s.Attempt.Number == 0:
		m.refund(s.ID.Lane, 1)
	case s.Attempt.Status == 0:
		l.window, l.slow = max(1, l.window/2), 8
	default:
		l.slow = 8
		for _, class := range []struct {
			most time.Duration
			slow int
		}{{time.Second, 4}, {250 * time.Millisecond, 2}, {100 * time.Millisecond, 1}, {50 * time.Millisecond, 0}} {
			if took <= class.most {
				l.slow = class.slow
			}
		}
		if s.Verdict == dispatcher.Delivered {
			l.window = min(l.window+1, limit)
		}
	}
	m.judge(s, l)
}

// count is how far an attempt brings its delivery.
func (m *model) count(s dispatcher.Settlement, d *modelDelivery) {
	if s.Verdict == dispatcher.Back || s.Attempt.Number == 0 {
		return
	}
	p := &d.progress
	p.Attempts = max(p.Attempts, s.Attempt.Number)
	p.Deaths, p.Asked, p.Status = 0, false, s.Attempt.Status
	if !s.First || s.Verdict != dispatcher.Delivered {
		d.history = min(d.history+1, 32)
	}
}

func (m *model) doCancel() {
	m.Helper()
	ids := m.someDeliveries()
	m.logf("cancel %v", ids)
	changes := m.change(m.Queue.Cancel, ids...)
	state := m.State()
	for i, got := range changes {
		d := m.deliveries[ids[i]]
		switch {
		case d == nil:
			require.ErrorIs(m, got.Err, dispatcher.ErrNotFound, "%s", ids[i])
			continue
		case d.Place == PlaceDue || d.Place == PlaceBehind || m.tookBack(ids[i], state.At(ids[i]).Place == PlaceCancelled):
			m.end(ids[i], PlaceCancelled)
			require.True(m, got.Changed, "%s", ids[i])
		case d.Place.Waits() && d.mark == MarkNone:
			d.mark = MarkCancelled
			require.True(m, got.Changed, "%s", ids[i])
		default:
			require.False(m, got.Changed, "%s", ids[i])
		}
		require.NoError(m, got.Err, "%s", ids[i])
	}
}

func (m *model) doRetry() {
	m.Helper()
	ids := m.someDeliveries()
	m.logf("retry %v", ids)
	for i, got := range m.change(m.Queue.Retry, ids...) {
		m.retried(ids[i], got)
	}
}

func (m *model) retried(id dispatcher.DeliveryID, got dispatcher.Change) {
	m.Helper()
	d := m.deliveries[id]
	switch {
	case d == nil:
		require.ErrorIs(m, got.Err, dispatcher.ErrNotFound, "%s", id)
	case m.ended(id.Lane):
		want := map[dispatcher.Held]error{dispatcher.HeldDisabled: dispatcher.ErrDisabled, dispatcher.HeldDeleted: dispatcher.ErrDeleted}
		require.ErrorIs(m, got.Err, want[m.limits[id.Lane].Held], "%s", id)
		require.False(m, got.Changed, "%s", id)
	case d.mark == MarkDelivered:
		require.False(m, got.Changed, "%s", id)
	case d.mark == MarkCancelled:
		d.mark = MarkNone // whether a leased one counts as changed is the store's to say
		require.True(m, got.Changed || d.Place == PlaceLeased, "%s", id)
	case d.Place == PlaceLeased:
		require.ErrorIs(m, got.Err, dispatcher.ErrInFlight, "%s", id)
	case d.Place == PlaceReady || d.Place == PlaceBehind:
		require.NoError(m, got.Err, "%s", id)
		require.False(m, got.Changed, "%s", id)
	default:
		require.NoError(m, got.Err, "%s", id)
		require.True(m, got.Changed, "%s", id)
		d.progress.Asked, d.progress.Reason = true, ""
		m.lane(id.Lane)
		if d.Place != PlaceDue {
			d.progress.Base, d.progress.Deaths = d.progress.Attempts, 0
			if m.join(id) {
				return
			}
		}
		m.toReady(id, m.ms(), false)
	}
}

// doReap declares an instance dead, or does so again. Another one takes its place.
func (m *model) doReap() {
	m.Helper()
	dead := pick(m.rng, m.instances...)
	if len(m.fenced) > 0 && m.rng.IntN(4) == 0 {
		dead = pick(m.rng, m.fenced...)
	}
	if at := slices.Index(m.instances, dead); at >= 0 {
		m.instances[at] = fmt.Sprintf("instance%d", len(m.fencedAt))
		m.beat(m.instances[at])
		m.fenced = append(m.fenced, dead)
	}
	m.fencedAt[dead] = m.now
	var held []dispatcher.DeliveryID
	for _, id := range sortedIDs(m.deliveries) {
		if d := m.deliveries[id]; d.Place == PlaceLeased && d.Holder == dead {
			held = append(held, id)
		}
	}
	slices.SortStableFunc(held, func(a, b dispatcher.DeliveryID) int {
		return cmp.Compare(m.deliveries[b].At, m.deliveries[a].At)*2 + cmp.Compare(b.String(), a.String())
	})
	m.logf("reap %s, which holds %v", dead, held)
	taken, hints, err := m.Queue.Reap(m.ctx, m.instances[0], dead)
	require.NoError(m, err)
	m.mustBeCurrent(hints)
	require.Equal(m, len(held), taken)
	for _, id := range held {
		d := m.deliveries[id]
		d.progress.Deaths++
		switch {
		case d.mark != MarkNone:
			m.carryOut(id)
		case d.progress.Deaths >= 3:
			m.die(id, dispatcher.ReasonPoison)
		case m.ended(id.Lane):
			m.giveUp(id)
		default:
			m.toReady(id, d.At, true)
		}
	}
}

func (m *model) doTrim() {
	m.Helper()
	m.trimAs(pick(m.rng, keepAll, keepDigests, keepNothing,
		dispatcher.Keep{Finished: 24 * time.Hour, FinishedMax: 3, SeenMax: 2, Dead: 48 * time.Hour, DeadMax: 2},
		dispatcher.Keep{Finished: time.Minute, FinishedMax: 5, SeenMax: 5, Dead: time.Hour, DeadMax: 5}))
}
