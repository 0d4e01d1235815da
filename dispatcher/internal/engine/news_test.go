package engine_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// heard keeps what notices are told of.
type heard struct {
	mu   sync.Mutex // guards news
	news []d.News
}

func (h *heard) tell(n d.News) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news = append(h.news, n)
}

// of are the news of one notice.
func (h *heard) of(notice d.Notice) []d.News {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.news), func(n d.News) bool { return n.Notice != notice })
}

func TestALostInstanceIsToldOnceThatAllOfItIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		r := newTestRig(t, func(o *engine.Options, q *testQueue, _ *fakeSender) { q.partitions, o.Tell = 3, h.tell })
		r.queue.other("gone", 7)
		for _, lane := range lanesOfThree {
			c := claimed(message("m"))
			c.ID.Lane = lane
			r.queue.lease("gone", c)
		}
		r.queue.cutOff(1)
		r.start(t)
		pass(5 * d.BeatEvery)
		require.Empty(t, h.of(d.NoticeLost))
		r.queue.cutOff()
		pass(time.Minute)
		lost := h.of(d.NoticeLost)
		require.Len(t, lost, 1)
		require.Equal(t, "gone", lost[0].Detail)
		require.True(t, d.ValidID(lost[0].Key))
		require.NotContains(t, lost[0].Key, "gone")
		r.stop(t)
	})
}

func TestAnOutageIsToldWithWhenItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Tell = h.tell })
		r.start(t)
		pass(time.Minute)
		require.Empty(t, h.of(d.NoticeUnhealthy))
		began := time.Now()
		r.queue.set(func() { r.queue.hook = func(string) error { return d.ErrUnavailable } })
		pass(time.Minute)
		require.Len(t, h.of(d.NoticeUnhealthy), 1)
		r.queue.set(func() { r.queue.hook = nil })
		pass(time.Minute)
		require.Len(t, h.of(d.NoticeHealthy), 1)
		bad := h.of(d.NoticeUnhealthy)[0]
		require.Equal(t, "unreachable", bad.Reason)
		require.Contains(t, bad.Detail, d.ErrUnavailable.Error())
		for _, n := range []d.News{bad, h.of(d.NoticeHealthy)[0]} {
			require.WithinDuration(t, began, n.Since, d.BeatEvery)
		}
		r.stop(t)
	})
}
