package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// Traps that queues like this one fell into.

func TestAPanicWithOnePermitStopsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.MaxInFlight = 1 })
		r.sender.answer = func(_ context.Context, c d.Call) d.Answer {
			if c.Header.Get("Hookladder-Attempt") == "1" {
				panic("the sender broke")
			}
			return d.Answer{Status: 200}
		}
		r.queue.fill(5)
		r.start(t)
		pass(time.Minute)
		require.Equal(t, map[d.Verdict]int{d.Retry: 5, d.Delivered: 5}, r.queue.verdicts())
		require.Equal(t, 1, r.FreePermits())
		r.stop(t)
	})
}

func TestAPublishDuringAMoveIsDelivered(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Millisecond, time.Second} {
		t.Run(wait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				r.queue.later("u_0", "due", time.Second)
				r.start(t)
				release := blockFirst(r.queue, "move")
				pass(time.Second + moment)
				require.Equal(t, 1, r.queue.count("move"), "it is on its way")
				m := message("meanwhile")
				m.Delay = wait
				out, err := r.Publish(t.Context(), []*d.Message{m})
				require.NoError(t, err)
				require.NoError(t, out[0].Err)
				release()
				pass(wait + moment)
				requireEachOnce(t, r.queue, 2)
				require.Len(t, r.sender.sent(), 2)
				r.stop(t)
			})
		})
	}
}

func TestMessagesOfOneMillisecondAreAllDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		var all sync.WaitGroup
		for _, prefix := range []string{"a", "b", "c"} {
			for _, wait := range []time.Duration{0, time.Second} {
				all.Go(func() {
					batch := messages(prefix+wait.String(), 20)
					for _, m := range batch {
						m.Delay = wait
					}
					if _, err := r.Publish(t.Context(), batch); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		pass(time.Second + moment)
		requireEachOnce(t, r.queue, 120)
		require.Len(t, r.sender.sent(), 120)
		r.stop(t)
	})
}

func TestWhatIsStoredButNotDurableIsRefusedAndAttemptedAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.direct, r.queue.undurable = true, true
		r.start(t)
		pass(10 * time.Minute)
		late := message("late")
		late.Delay = time.Minute
		out, err := r.Publish(t.Context(), append(messages("m", 3), late))
		require.NoError(t, err)
		for _, p := range out {
			require.ErrorIs(t, p.Err, d.ErrUnavailable, "no false 202")
			require.ErrorContains(t, p.Err, "not durable")
			require.Zero(t, p.Result)
		}
		pass(10 * time.Second)
		require.Len(t, r.sender.sent(), 3, "they are leased here")
		require.Zero(t, r.queue.count("leases"), "and known: nothing has to be looked for")
		pass(time.Minute)
		requireEachOnce(t, r.queue, 4)
		require.Zero(t, r.Leases())
		require.Equal(t, 1024, r.FreePermits())
		r.queue.set(func() { r.queue.undurable = false })
		out, err = r.Publish(t.Context(), messages("m", 3))
		require.NoError(t, err)
		require.Equal(t, d.Duplicate, out[0].Result, "a repeat is answered as what it is")
		r.stop(t)
	})
}

// published notes what observers are told of publishes.
type published struct {
	tookOver
	all []d.Published // the test's goroutine alone publishes
}

func (o *published) Published(p d.Published) { o.all = append(o.all, p) }

func TestObserversAreToldOfEachMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &published{}
		r := newTestEndpointRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Observer = seen })
		r.start(t)
		other := message("m_0")
		other.Body = []byte(`{"other":true}`)
		_, err := r.Publish(t.Context(), append(messages("m", 2), message("m_0"), other, fan("nobody", "none"), to("unknown", "lost")))
		require.NoError(t, err)
		var results []string
		for _, p := range seen.all {
			results = append(results, p.Result.String())
		}
		require.Equal(t, []string{"accepted", "accepted", "duplicate", "conflict", "accepted", "none"}, results)
		require.Empty(t, seen.all[4].Deliveries, "no endpoint matched")
		require.ErrorIs(t, seen.all[5].Err, d.ErrNoEndpoint)
		r.stop(t)
		_, err = r.Publish(t.Context(), messages("late", 2))
		require.ErrorIs(t, err, d.ErrUnavailable)
		require.Len(t, seen.all, 8, "also of those that nobody took")
		require.ErrorIs(t, seen.all[7].Err, d.ErrUnavailable)
	})
}
