package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The steps that end work: settle and cancel.

// doSettle settles some claims of one instance, in its own view. Sometimes it
// also settles claims of another instance.
func (m *model) doSettle() {
	m.Helper()
	if len(m.claims) == 0 {
		return
	}
	by := pick(m.rng, m.claims...).by
	foreign := m.rng.IntN(15) == 0
	var batch []dispatcher.Settlement
	outcomeOf := map[dispatcher.DeliveryID]dispatcher.Claimed{}
	m.claims = slices.DeleteFunc(m.claims, func(h holding) bool {
		mine := h.by == by || foreign
		_, known := outcomeOf[h.claimed.ID]
		if !mine || known || len(batch) == 4 || m.rng.IntN(3) == 0 {
			return false
		}
		outcomeOf[h.claimed.ID] = h.claimed
		batch = append(batch, m.someOutcome(h.claimed))
		m.past = append(m.past, h)
		return h.by == by
	})
	if len(batch) == 0 {
		return
	}
	for i, settled := range m.settleAs(by, batch) {
		if settled == 0 { // no reply: it is settled again
			m.claims = append(m.claims, holding{by: by, claimed: outcomeOf[batch[i].ID]})
		}
	}
}

// doSettleAgain settles a claim that was settled before, maybe long before. The reply was
// lost, or the instance was stopped in the meantime. The worst case is an instance that leases
// the same delivery again.
func (m *model) doSettleAgain() {
	m.Helper()
	again := slices.DeleteFunc(slices.Clone(m.past), func(h holding) bool {
		d := m.deliveries[h.claimed.ID]
		return d == nil || d.Place != redisqtest.PlaceLeased || d.Holder != h.by
	})
	if len(again) == 0 || m.rng.IntN(3) == 2 {
		again = m.past
	}
	if len(again) > 0 {
		h := pick(m.rng, again...)
		m.settleAs(h.by, []dispatcher.Settlement{m.someOutcome(h.claimed)})
	}
}

func (m *model) someOutcome(c dispatcher.Claimed) dispatcher.Settlement {
	wait := pick(m.rng, 0, time.Millisecond, 15*time.Second, time.Hour)
	quick := time.Duration(m.rng.IntN(1300)) * time.Millisecond
	switch m.rng.IntN(8) {
	case 0, 1, 2:
		return redisqtest.Took(redisqtest.Answered(c, dispatcher.Delivered, pick(m.rng, 200, 200, 204, 201, 404, 503)), quick)
	case 3:
		s := redisqtest.Took(redisqtest.Failure(c, wait), quick)
		s.Blame = m.rng.IntN(3) > 0
		s.Fails, s.DisableAfter = s.Blame || m.rng.IntN(2) == 0, pick(m.rng, 0, 2*time.Second, 24*time.Hour)
		return s
	case 4:
		if m.rng.IntN(2) == 0 {
			s := redisqtest.Paused(c, wait, pick(m.rng, 1500*time.Microsecond, 2*time.Second, time.Minute))
			s.Blame = m.rng.IntN(2) == 0
			return s
		}
		s := redisqtest.Silence(c, wait)
		s.Blame = m.rng.IntN(3) > 0
		if s.Blame && m.rng.IntN(2) == 0 {
			s.Stalled = dispatcher.WhyEgress // our own network has failed for too long
		}
		return s
	case 5:
		return redisqtest.Took(redisqtest.Death(c, pick(m.rng, dispatcher.ReasonExhausted, dispatcher.ReasonGone)), quick)
	case 6:
		s := redisqtest.Death(c, dispatcher.ReasonRefused)
		s.Attempt = dispatcher.Attempt{}
		return s
	default:
		if m.rng.IntN(4) == 0 {
			return redisqtest.Snooze(c, wait)
		}
		s := redisqtest.HandBack(c)
		s.Due = m.Now.Truncate(time.Millisecond)
		switch m.rng.IntN(4) {
		case 0, 1:
			s.Stalled, s.Pause = dispatcher.WhyEgress, pick(m.rng, time.Second, 15*time.Second)
		case 2:
			s.Stalled, s.Wait = dispatcher.WhySealed, pick(m.rng, time.Second, 10*time.Second)
		}
		return s
	}
}

func (m *model) settleAs(by string, batch []dispatcher.Settlement) []dispatcher.SettleResult {
	m.Helper()
	m.calls("settle")
	got, hints, err := m.Queue.Settle(m.Ctx, by, batch)
	require.Len(m, got, len(batch))
	answered := m.went(err)
	m.MustBeCurrent(hints)
	var fronts []dispatcher.Settlement
	m.opened, m.closed = map[dispatcher.Lane]int64{}, map[dispatcher.Lane]bool{}
	state := m.State()
	for i, s := range batch {
		m.logf("settle by %s: %s %s status %d took %s wait %s: %d", by, s.ID, s.Verdict, s.Attempt.Status, s.Attempt.Duration, s.Wait, got[i])
		m.logf("  blame %v fails %v after %s pause %s for %q", s.Blame, s.Fails, s.DisableAfter, s.Pause, s.Stalled)
		if !m.came(s.ID.Lane) {
			require.Zero(m, got[i], "%s", s.ID)
			continue
		}
		d := m.deliveries[s.ID]
		var want []dispatcher.SettleResult
		if d != nil && d.Place == redisqtest.PlaceLeased && d.Holder == by && !older(s, d) {
			want = []dispatcher.SettleResult{m.settled(s, d, &fronts)}
		} else {
			want = m.late(s, d, state)
		}
		if got[i] != 0 || answered {
			require.Contains(m, want, got[i], "%s", s.ID)
		}
	}
	slices.Reverse(fronts)
	for _, s := range fronts {
		m.toReady(s.ID, s.Due.UnixMilli(), true)
	}
	if answered {
		m.compareBreakers(hints)
	}
	return got
}

// compareBreakers checks that the hints report the breakers that opened and
// closed.
func (m *model) compareBreakers(hints []redisqtest.Hint) {
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
	require.ElementsMatch(m, redisqtest.SortedKeys(m.opened), redisqtest.SortedKeys(opened))
	for lane, until := range opened { // a pause that came with the failure may last longer; a later success may have closed the breaker
		want := m.lanes[lane].until
		if want == 0 {
			want = m.opened[lane]
		}
		require.Equal(m, want, until, "lane %s", lane)
	}
	require.Equal(m, m.closed, closed)
}

// older reports whether a settlement is of an attempt before the current one. A
// settlement without an attempt is older if it is of another lease. A final
// outcome needs no such check.
func older(s dispatcher.Settlement, d *modelDelivery) bool {
	if s.Attempt.Number == 0 {
		return !s.Leased.IsZero() && s.Leased.UnixMilli() != d.At
	}
	return s.Attempt.Number > 0 && s.Attempt.Number <= d.progress.Attempts && d.mark != redisqtest.MarkDelivered
}

// settled returns the result of a settlement by the instance that has the
// lease.
func (m *model) settled(s dispatcher.Settlement, d *modelDelivery, fronts *[]dispatcher.Settlement) dispatcher.SettleResult {
	m.learn(s)
	mark := d.mark
	switch {
	case mark == redisqtest.MarkDelivered || s.Verdict == dispatcher.Delivered:
		m.count(s, d)
		m.end(s.ID, redisqtest.PlaceDone)
	case mark == redisqtest.MarkCancelled:
		m.count(s, d)
		m.end(s.ID, redisqtest.PlaceCancelled)
	case (s.Verdict == dispatcher.Back || s.Verdict == dispatcher.Snoozed) && m.ended(s.ID.Lane):
		m.giveUp(s.ID)
		return dispatcher.SettledEnd
	case s.Verdict == dispatcher.Back && s.Wait > 0:
		d.unopened = cmp.Or(d.unopened, m.ms())
		m.moveTo(s.ID, redisqtest.Found{Place: redisqtest.PlaceDue, At: m.from() + s.Wait.Milliseconds()})
		return dispatcher.SettledOK
	case s.Verdict == dispatcher.Snoozed:
		d.unopened, d.progress.Deaths, d.progress.Asked = 0, 0, 0
		d.progress.Snoozes++
		m.moveTo(s.ID, redisqtest.Found{Place: redisqtest.PlaceDue, At: m.from() + s.Wait.Milliseconds()})
		return dispatcher.SettledOK
	case s.Verdict == dispatcher.Back:
		*fronts = append(*fronts, s)
		return dispatcher.SettledOK
	case s.Verdict == dispatcher.Retry && m.ended(s.ID.Lane):
		m.count(s, d)
		m.giveUp(s.ID)
		return dispatcher.SettledEnd
	case s.Verdict == dispatcher.Retry:
		due, over := m.again(s, d)
		m.count(s, d)
		if over {
			m.die(s.ID, dispatcher.ReasonExpired)
			return dispatcher.SettledEnd
		}
		d.unopened = 0
		m.moveTo(s.ID, redisqtest.Found{Place: redisqtest.PlaceDue, At: due})
		return dispatcher.SettledOK
	default:
		m.count(s, d)
		if s.Attempt.Number == 0 {
			d.progress.Status = 0 // no request was sent, so there is no response
		}
		m.die(s.ID, s.Reason)
		return dispatcher.SettledOK
	}
	if s.Verdict == dispatcher.Delivered && mark != redisqtest.MarkDelivered {
		return dispatcher.SettledOK
	}
	return dispatcher.SettledEnd
}

// again returns the due time in ms of the attempt after a failed one. It also
// reports whether the message will have expired by then. If a person's attempt
// interrupted a due time, that time is kept, unless it has passed.
func (m *model) again(s dispatcher.Settlement, d *modelDelivery) (due int64, expired bool) {
	due = m.from() + s.Wait.Milliseconds()
	on := d.progress.WaitsOn()
	if on == 0 {
		return due, false // Judge has checked the expiry already
	}
	if on > m.ms() {
		due = on
	}
	due = max(due, m.from()+ceilMillis(time.UnixMilli(0).Add(s.Pause)))
	at := m.messages[recordKey{m.Partition(s.ID.Lane), s.ID.Message}].message.ExpiresAt
	return due, !at.IsZero() && due >= at.UnixMilli()
}

// late returns the possible results of a settlement without the lease. Another
// outcome of the same call may have released the delivery. The store may then
// end it before or after it became ready.
func (m *model) late(s dispatcher.Settlement, d *modelDelivery, state redisqtest.State) []dispatcher.SettleResult {
	if s.Verdict == dispatcher.Dead && d != nil && state.At(s.ID).Place == redisqtest.PlaceDead {
		return []dispatcher.SettleResult{dispatcher.SettledLate, dispatcher.SettledBefore}
	}
	if s.Verdict != dispatcher.Delivered || d == nil || !d.Place.Waits() || d.mark == redisqtest.MarkDelivered {
		return []dispatcher.SettleResult{dispatcher.SettledLate}
	}
	m.count(s, d)
	switch {
	case d.Place == redisqtest.PlaceDue || d.Place == redisqtest.PlaceBehind || m.tookBack(s.ID, state.At(s.ID).Place == redisqtest.PlaceDone):
		m.end(s.ID, redisqtest.PlaceDone)
	case d.Place == redisqtest.PlaceReady && !m.released[s.ID]: // a short list is read whole
		m.ready[s.ID.Lane] = slices.DeleteFunc(m.ready[s.ID.Lane], func(other dispatcher.DeliveryID) bool { return other == s.ID })
		m.end(s.ID, redisqtest.PlaceDone)
	default:
		d.mark = redisqtest.MarkDelivered
	}
	return []dispatcher.SettleResult{dispatcher.SettledDone}
}

// learn changes a lane by the result of an attempt.
func (m *model) learn(s dispatcher.Settlement) {
	l := m.lane(s.ID.Lane)
	limit := m.Setup.Limit(m.limits[s.ID.Lane])
	l.window = min(l.window, limit)
	switch took := s.Attempt.Duration; {
	case s.Verdict == dispatcher.Snoozed: // its token is used
	case s.Verdict == dispatcher.Back || s.Attempt.Number == 0:
		m.refund(s.ID.Lane, 1)
	case m.pulled(s.ID.Lane): // takers set their own pace
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

// count adds an attempt to the progress of its delivery.
func (m *model) count(s dispatcher.Settlement, d *modelDelivery) {
	if s.Verdict == dispatcher.Back || s.Attempt.Number == 0 {
		return
	}
	p := &d.progress
	p.Attempts = max(p.Attempts, s.Attempt.Number)
	if s.Verdict == dispatcher.Retry && p.WaitsOn() > 0 {
		p.Beside++
	}
	p.Deaths, p.Asked, p.Status = 0, 0, s.Attempt.Status
	if !s.First || s.Verdict != dispatcher.Delivered {
		d.history = min(d.history+1, 32)
	}
}

func (m *model) doCancel() {
	m.Helper()
	m.cancelSome(m.someDeliveries())
}

func (m *model) cancelSome(ids []dispatcher.DeliveryID) {
	m.Helper()
	m.logf("cancel %v", ids)
	m.calls("cancel")
	changes := m.changeSome(m.Queue.Cancel, ids)
	state := m.State()
	for i, got := range changes {
		if m.came(ids[i].Lane) {
			m.cancelled(ids[i], got, state)
		}
	}
}

// changeSome cancels or retries deliveries. If the reply was lost, it returns
// zero values, which are not compared.
func (m *model) changeSome(f redisqtest.ChangeFunc, ids []dispatcher.DeliveryID) []dispatcher.Change {
	m.Helper()
	got, hints, err := f(m.Ctx, pick(m.rng, m.instances...), ids)
	m.MustBeCurrent(hints)
	if !m.went(err) {
		return make([]dispatcher.Change, len(ids))
	}
	require.Len(m, got, len(ids))
	for i, id := range ids {
		require.Equal(m, id, got[i].ID)
	}
	return got
}

func (m *model) cancelled(id dispatcher.DeliveryID, got dispatcher.Change, state redisqtest.State) {
	m.Helper()
	d := m.deliveries[id]
	want, wantErr := false, error(nil)
	switch {
	case d == nil:
		wantErr = dispatcher.ErrNotFound
	case d.Place == redisqtest.PlaceDue || d.Place == redisqtest.PlaceBehind || m.tookBack(id, state.At(id).Place == redisqtest.PlaceCancelled):
		m.end(id, redisqtest.PlaceCancelled)
		want = true
	case d.Place == redisqtest.PlaceReady && d.mark == redisqtest.MarkNone: // a short list is read whole
		m.ready[id.Lane] = slices.DeleteFunc(m.ready[id.Lane], func(other dispatcher.DeliveryID) bool { return other == id })
		m.end(id, redisqtest.PlaceCancelled)
		want = true
	case d.Place.Waits() && d.mark == redisqtest.MarkNone:
		d.mark = redisqtest.MarkCancelled
		want = true
	}
	if got.ID == id {
		require.Equal(m, want, got.Changed, "%s", id)
		require.ErrorIs(m, got.Err, wantErr, "%s", id)
	}
}
