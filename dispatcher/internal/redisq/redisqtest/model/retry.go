package model

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The steps in which a person asks for an attempt.

func (m *model) doRetry() {
	m.Helper()
	m.retrySome(m.someDeliveries(), m.rng.IntN(2) == 0)
}

func (m *model) retrySome(ids []dispatcher.DeliveryID, delivered bool) {
	m.Helper()
	m.logf("retry %v, delivered too %v", ids, delivered)
	retry := func(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []redisqtest.Hint, error) {
		return m.Queue.Retry(ctx, by, ids, delivered)
	}
	m.calls("retry")
	for i, got := range m.changeSome(retry, ids) {
		if m.came(ids[i].Lane) {
			m.retried(ids[i], got, delivered)
		}
	}
}

func (m *model) retried(id dispatcher.DeliveryID, got dispatcher.Change, delivered bool) {
	m.Helper()
	d := m.deliveries[id]
	wants := []bool{false}
	wantErr := m.keepsFromRetry(id, delivered)
	switch {
	case wantErr != nil:
	case d.mark == redisqtest.MarkCancelled:
		d.mark = redisqtest.MarkNone
		wants = []bool{true}
		if d.Place.Flies() { // the store decides whether that counts as changed
			wants, wantErr = []bool{true, false}, got.Err
		}
	case d.Place != redisqtest.PlaceReady:
		wants = []bool{true}
		m.startAgain(id)
	}
	if got.ID == id {
		require.Contains(m, wants, got.Changed, "%s", id)
		require.ErrorIs(m, got.Err, wantErr, "%s", id)
	}
}

func (m *model) doReschedule() {
	m.Helper()
	m.rescheduleSome(m.someDeliveries(), m.Now.Add(pick(m.rng, -time.Hour, 0, 5*time.Second, time.Hour)))
}

// rescheduleSome lets deliveries be due at another time.
func (m *model) rescheduleSome(ids []dispatcher.DeliveryID, at time.Time) {
	m.Helper()
	m.logf("reschedule %v to %s", ids, at)
	m.calls("reschedule")
	ms := ceilMillis(at)
	for i, got := range m.changeSome(func(ctx context.Context, by string, ids []dispatcher.DeliveryID) ([]dispatcher.Change, []redisqtest.Hint, error) {
		return m.Queue.Reschedule(ctx, by, ids, at)
	}, ids) {
		if !m.came(ids[i].Lane) {
			continue
		}
		d := m.deliveries[ids[i]]
		want, wantErr := false, error(nil)
		var expires time.Time
		if d != nil {
			expires = m.messages[recordKey{m.Partition(ids[i].Lane), ids[i].Message}].message.ExpiresAt
		}
		switch {
		case d == nil:
			wantErr = dispatcher.ErrNotFound
		case !expires.IsZero() && ms >= expires.UnixMilli():
			wantErr = dispatcher.ErrExpired
		case d.mark != redisqtest.MarkNone:
		case d.Place == redisqtest.PlaceBehind:
			wantErr = dispatcher.ErrOrder
		case d.Place == redisqtest.PlaceDue:
			d.At, want = ms, true
		case d.progress.Asked > 1: // a person asked for an attempt now
		case d.Place == redisqtest.PlaceReady: // a short list is read whole
			m.ready[ids[i].Lane] = slices.DeleteFunc(m.ready[ids[i].Lane], func(other dispatcher.DeliveryID) bool { return other == ids[i] })
			m.moveTo(ids[i], redisqtest.Found{Place: redisqtest.PlaceDue, At: ms})
			d.progress.Asked, want = 0, true
		}
		if got.ID == ids[i] {
			require.Equal(m, want, got.Changed, "%s", ids[i])
			require.ErrorIs(m, got.Err, wantErr, "%s", ids[i])
		}
	}
}

// keepsFromRetry returns the reason why a retry is refused: the first one that
// applies, or nil.
func (m *model) keepsFromRetry(id dispatcher.DeliveryID, delivered bool) error {
	d := m.deliveries[id]
	switch {
	case d == nil:
		return dispatcher.ErrNotFound
	case !delivered && (d.Place == redisqtest.PlaceDone || d.mark == redisqtest.MarkDelivered):
		return dispatcher.ErrDelivered
	case m.limits[id.Lane].Mode == dispatcher.LaneDeleted:
		return dispatcher.ErrDeleted
	case m.limits[id.Lane].Mode == dispatcher.LaneDisabled:
		return dispatcher.ErrDisabled
	case d.mark == redisqtest.MarkDelivered, d.Place.Flies() && d.mark == redisqtest.MarkNone:
		return dispatcher.ErrInFlight
	case !d.Place.Flies() && m.expired(m.messages[recordKey{m.Partition(id.Lane), id.Message}]):
		return dispatcher.ErrExpired
	case d.Place == redisqtest.PlaceBehind:
		return dispatcher.ErrOrder
	}
	return nil
}

// startAgain makes a delivery ready that waits for its time or has ended.
func (m *model) startAgain(id dispatcher.DeliveryID) {
	d := m.deliveries[id]
	if d.Place == redisqtest.PlaceDone && d.progress.Delivered == 0 {
		d.progress.Delivered = d.At
	}
	d.progress.Reason = ""
	if d.progress.Asked == 0 || d.Place != redisqtest.PlaceDue {
		d.progress.Asked = d.At
	}
	m.lane(id.Lane)
	if d.Place != redisqtest.PlaceDue {
		d.progress.Base, d.progress.Deaths, d.progress.Beside, d.progress.Snoozes, d.progress.Asked = d.progress.Attempts, 0, 0, 0, 1
		if m.join(id) {
			return
		}
	}
	m.toReady(id, m.ms(), false)
}
