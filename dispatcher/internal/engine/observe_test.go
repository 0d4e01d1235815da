package engine_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// seen keeps the attempts that it is told of.
type seen struct {
	tookOver
	mu       sync.Mutex // guards attempts
	attempts []d.Attempted
}

func (s *seen) Attempted(a d.Attempted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts = append(s.attempts, a)
}

func TestAnAttemptTellsHowLateItIsAndHowLongItsDeliveryTook(t *testing.T) {
	t.Parallel()
	const took = 2 * time.Second
	for name, c := range map[string]struct {
		change      func(c *d.Claimed, now time.Time)
		late, since time.Duration
	}{
		"at once": {func(*d.Claimed, time.Time) {}, 0, took},
		"accepted a minute ago": {func(c *d.Claimed, now time.Time) {
			c.Message.CreatedAt, c.Due = now.Add(-time.Minute), now.Add(-time.Minute)
		}, time.Minute, time.Minute + took},
		"for a time long before that": {func(c *d.Claimed, now time.Time) {
			c.Message.DeliverAt, c.Due = now.AddDate(-6, 0, 0), now.AddDate(-6, 0, 0)
		}, 0, took},
		"for a time after that": {func(c *d.Claimed, now time.Time) {
			c.Message.CreatedAt, c.Message.DeliverAt, c.Due = now.Add(-time.Hour), now.Add(-time.Second), now
		}, 0, time.Second + took},
		"its third attempt": {func(c *d.Claimed, now time.Time) {
			c.Message.CreatedAt, c.Attempt, c.Rung, c.First = now.Add(-time.Hour), 3, 3, false
		}, 0, time.Hour + took},
		"a person asked for it": {func(c *d.Claimed, now time.Time) {
			c.Message.CreatedAt, c.Asked, c.First = now.Add(-time.Hour), true, false
		}, 0, 0},
		"a person had it sent again": {func(c *d.Claimed, now time.Time) {
			c.Message.CreatedAt, c.Attempt, c.Rung, c.First = now.Add(-time.Hour), 3, 2, false
		}, 0, 0},
		"accepted by a clock that is fast": {func(c *d.Claimed, now time.Time) { c.Message.CreatedAt = now.Add(time.Hour) }, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				observer := &seen{}
				r := newTestRig(t, func(o *engine.Options, _ *testQueue, s *fakeSender) { o.Observer, s.answer = observer, takes(took) })
				one := claimed(message("m"))
				one.Message.CreatedAt, one.Due = time.Now(), time.Now()
				r.queue.put(one)
				r.queue.set(func() {
					r.queue.changed[one.ID] = func(got *d.Claimed) {
						got.Message = one.Message
						c.change(got, time.Now())
					}
				})
				r.start(t)
				pass(time.Minute)
				r.stop(t)
				require.Len(t, observer.attempts, 1)
				require.Equal(t, d.Delivered, observer.attempts[0].Attempt.Verdict)
				require.InDelta(t, c.late, observer.attempts[0].Late, float64(time.Millisecond))
				require.InDelta(t, c.since, observer.attempts[0].Since, float64(time.Millisecond))
				require.Equal(t, c.since > 0, observer.attempts[0].Since > 0, "whether it counts")
			})
		})
	}
}
