package engine_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
	"github.com/hookladder/hookladder/ladder"
)

// heard keeps what notices are told of.
type heard struct {
	mu   sync.Mutex // guards news
	news []d.News
}

func (h *heard) notify(n d.News) {
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		r := newTestRig(t, func(o *engine.Options, q *testQueue, _ *fakeSender) { q.partitions, o.Notify = 3, h.notify })
		r.queue.other("gone", 7)
		for _, lane := range lanesOfThree {
			c := claimed(message("m"))
			c.ID.Lane = lane
			r.queue.lease("gone", c)
		}
		r.queue.cutOff(1)
		r.start(t)
		pass(5 * wait.BeatEvery)
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Notify = h.notify })
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
			require.WithinDuration(t, began, n.Since, wait.BeatEvery)
		}
		r.stop(t)
	})
}

// The script tells of each failure, so any instance tells what another could not.
func TestWhatLastsIsToldOnceAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		var up atomic.Bool
		own, err := ladder.New(slices.Repeat([]time.Duration{10 * time.Minute}, 100)...)
		require.NoError(t, err)
		r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, s *fakeSender) {
			o.Notify, o.FailingAfter, o.Ladder = h.notify, time.Hour, own
			s.answer = func(context.Context, d.Call) d.Answer {
				if up.Load() {
					return d.Answer{Status: 200}
				}
				return d.Answer{Status: 500}
			}
		})
		began := time.Now()
		r.start(t)
		r.publish(t, message("m"))
		pass(2*time.Hour + 5*time.Minute)
		keys := map[string]bool{}
		for _, n := range h.of(d.NoticeFailing) {
			keys[n.Key] = true
			require.WithinDuration(t, began, n.Since, time.Second)
			require.Equal(t, 500, n.Status)
			require.NotEmpty(t, n.Lane)
		}
		require.Len(t, keys, 2, "after one hour and two")
		up.Store(true)
		pass(10 * time.Minute)
		recovered := h.of(d.NoticeRecovered)
		require.Len(t, recovered, 1)
		require.Equal(t, 200, recovered[0].Status)
		require.Equal(t, h.of(d.NoticeFailing)[0].Key, recovered[0].Key)
		r.stop(t)
	})
}

// The notice that a destination fails is followed by one that this is over, though no
// attempt succeeded.
func TestAResumeOrAChangeOfWhatFailsIsToldAsARecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		own, err := ladder.New(slices.Repeat([]time.Duration{10 * time.Minute}, 100)...)
		require.NoError(t, err)
		r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, s *fakeSender) {
			o.Notify, o.FailingAfter, o.Ladder = h.notify, 20*time.Minute, own
			s.answer = func(context.Context, d.Call) d.Answer { return d.Answer{Status: 500} }
		})
		r.start(t)
		view := r.create(t)
		m := message("m")
		m.URL, m.Endpoint = "", view.ID
		r.publish(t, m)
		pass(10 * time.Minute)
		_, err = r.Resume(t.Context(), view.ID, "")
		require.NoError(t, err)
		require.Empty(t, h.of(d.NoticeRecovered), "nobody was told that it fails")
		for i, act := range []func() d.LaneWhy{
			func() d.LaneWhy {
				_, err := r.Resume(t.Context(), view.ID, "")
				require.NoError(t, err)
				return d.WhyResumed
			},
			func() d.LaneWhy {
				r.change(t, view.ID, func(e *d.Endpoint) { e.URL += "/other" })
				return d.WhyChanged
			},
		} {
			pass(30 * time.Minute)
			failing := h.of(d.NoticeFailing)
			why := act()
			recovered := h.of(d.NoticeRecovered)
			require.Len(t, recovered, i+1)
			require.Equal(t, string(why), recovered[i].Reason)
			require.Equal(t, failing[len(failing)-1].Since, recovered[i].Since)
		}
		r.change(t, view.ID, func(e *d.Endpoint) { e.Description = "other" })
		require.Len(t, h.of(d.NoticeRecovered), 2)
		r.stop(t)
	})
}

func TestItIsToldThatSomethingHappenedHereOrElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stirred atomic.Int32
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Stirred = func() { stirred.Add(1) } })
		r.queue.other("other", 1)
		r.start(t)
		pass(time.Second)
		stirred.Store(0)
		for n := range 5 {
			r.queue.other("other", int64(1+(n+1)<<10)) // it beats
			pass(wait.BeatEvery)
		}
		require.Zero(t, stirred.Load(), "nothing happens")
		r.queue.other("other", 1+6<<10+1) // it beats, and did something
		pass(wait.BeatEvery)
		require.EqualValues(t, 1, stirred.Load())
		r.queue.other("other", 1+7<<10+1)
		pass(wait.BeatEvery)
		require.EqualValues(t, 1, stirred.Load(), "once")

		name := r.Engine.Name()
		number := r.queue.number(name)
		r.queue.other("other", 1+8<<10+1)
		pass(wait.BeatEvery)
		require.Zero(t, (r.queue.number(name)-number)%(1<<10))
		_, err := r.Publish(t.Context(), messages("a", 1))
		require.NoError(t, err)
		pass(wait.BeatEvery)
		require.Greater(t, stirred.Load(), int32(2), "it was accepted and settled here")
		require.EqualValues(t, 1, (r.queue.number(name)-number)%(1<<10), "the others are told")
		r.stop(t)
	})
}

func TestItIsToldThatEndpointsOrPausesChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var changed atomic.Int32
		r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Stirred = func() { changed.Add(1) } })
		r.start(t)
		pass(time.Second)
		name, before := r.Engine.Name(), changed.Load()
		require.Positive(t, before, "what was changed before nobody told")
		number := r.queue.number(name)
		_, err := r.Pause(t.Context(), string(d.AllLanes), "")
		require.NoError(t, err)
		require.Greater(t, changed.Load(), before)
		pass(wait.BeatEvery)
		require.EqualValues(t, 1, (r.queue.number(name)-number)%(1<<10), "other instances learn that something happened")
		before = changed.Load()
		view := r.create(t)
		require.Greater(t, changed.Load(), before)
		before = changed.Load()
		r.queue.notify(d.EndpointChange{ID: view.ID, Version: 99}) // another instance changed it
		pass(time.Second)
		require.Greater(t, changed.Load(), before)
		r.stop(t)
	})
}

// Deliveries end without an outcome too: the log of that is to be read as soon.
func TestItIsToldOfWhatEndsWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stirred atomic.Int32
		r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Stirred = func() { stirred.Add(1) } })
		r.start(t)
		view := r.create(t, uid("main"))
		expires := message("expires")
		expires.Delay, expires.ExpiresAt = 10*time.Minute, time.Now().Add(5*time.Minute)
		swept := to("main", "swept")
		swept.Delay = 24 * time.Hour
		r.publish(t, expires)
		r.publish(t, swept)
		pass(2 * time.Minute)
		stirred.Store(0)
		pass(10 * time.Minute)
		require.Positive(t, stirred.Load(), "it expired")

		r.queue.set(func() { r.queue.hook = failing("sweep", d.ErrUnavailable) })
		_, err := r.DeleteEndpoint(t.Context(), view.ID)
		require.NoError(t, err)
		pass(time.Minute)
		stirred.Store(0)
		pass(time.Minute)
		require.Zero(t, stirred.Load())
		r.queue.set(func() { r.queue.hook = nil })
		pass(time.Minute)
		status, _ := r.queue.ended(view.Lane(), "swept")
		require.Equal(t, d.StatusCancelled, status)
		require.Positive(t, stirred.Load())
		r.stop(t)
	})
}
