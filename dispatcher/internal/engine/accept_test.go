package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// acceptsOnly has no permits, so that a test sees accepting alone.
func acceptsOnly(o *engine.Options, _ *testQueue, _ *fakeSender) { o.MaxInFlight = 0 }

// blockFirst blocks the first call of a name until the answered function runs.
func blockFirst(q *testQueue, name string) (release func()) {
	gate := make(chan struct{})
	var once sync.Once
	q.set(func() {
		q.hook = func(call string) error {
			if call == name {
				once.Do(func() { <-gate })
			}
			return nil
		}
	})
	return func() { close(gate) }
}

func sizes(calls []call) (n []int) {
	for _, c := range calls {
		n = append(n, c.n)
	}
	return n
}

func TestPublishesThatComeDuringACallGoTogetherInTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		release := blockFirst(r.queue, "schedule")
		r.start(t)
		var all sync.WaitGroup
		publish := func(id string) {
			defer all.Done()
			out, err := r.Publish(t.Context(), messages(id, 1))
			if err != nil || len(out) != 1 || out[0].Result != d.Accepted || out[0].Deliveries[0].ID.Message != id+"_0" {
				t.Errorf("publish %s: %+v, %v", id, out, err)
			}
		}
		all.Add(101)
		go publish("first")
		synctest.Wait()
		for i := range 100 {
			go publish(fmt.Sprintf("next_%d", i))
		}
		synctest.Wait()
		require.Equal(t, []int{1}, sizes(r.queue.seen("schedule")))
		release()
		all.Wait()
		require.Equal(t, []int{1, 100}, sizes(r.queue.seen("schedule")))
		r.stop(t)
	})
}

func TestEachCallerGetsItsOwnResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		release := blockFirst(r.queue, "schedule")
		r.start(t)
		var all sync.WaitGroup
		given := 0 // each message has a delay of its own, by which its result is known
		publish := func(prefix string, n int) {
			batch := messages(prefix, n)
			for _, m := range batch {
				given++
				m.Delay = time.Duration(given) * time.Second
			}
			all.Go(func() {
				out, err := r.Publish(t.Context(), batch)
				if err != nil || len(out) != n {
					t.Errorf("publish %s: %d results, %v", prefix, len(out), err)
					return
				}
				for i, p := range out {
					if p.Err != nil || p.Result != d.Accepted || p.Deliveries[0].ID.Message != batch[i].ID ||
						p.Deliveries[0].Due.Sub(p.CreatedAt).Truncate(time.Second) != batch[i].Delay {
						t.Errorf("%s: result %d is %+v", prefix, i, p)
						return
					}
				}
			})
			synctest.Wait() // so that they come in this order
		}
		publish("first", 1)
		publish("big", 1000)
		publish("single_a", 1)
		publish("large", 300)
		publish("single_b", 1)
		release()
		all.Wait()
		total := 0
		for _, c := range r.queue.seen("schedule") {
			require.LessOrEqual(t, c.n, engine.FlushLeast)
			total += c.n
		}
		require.Equal(t, 1303, total)
		r.stop(t)
	})
}

func TestAFlushTakesMoreMessagesTheMorePartitionsTheyMayGoTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		partitions int
		want       []int
	}{
		"one":          {1, []int{1, 256, 256, 256, 256, 256, 220}},
		"a few":        {8, []int{1, 512, 512, 476}},
		"many":         {128, []int{1, engine.FlushMost, 476}},
		"no more than": {512, []int{1, engine.FlushMost, 476}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.partitions = c.partitions })
				release := blockFirst(r.queue, "schedule")
				r.start(t)
				var all sync.WaitGroup
				r.put(t, &all, message("first"))
				r.put(t, &all, messages("many", 1500)...)
				release()
				all.Wait()
				calls := r.queue.seen("schedule")
				require.Equal(t, c.want, sizes(calls))
				for _, call := range calls {
					require.LessOrEqual(t, call.leased, engine.FlushLeases, "permits that it takes from the claims")
				}
				r.stop(t)
			})
		})
	}
}

func TestASinglePublishDoesNotWaitForAllOfALargeOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		r.queue.hook = func(name string) error {
			if name == "schedule" {
				time.Sleep(time.Second)
			}
			return nil
		}
		r.start(t)
		go func() { _, _ = r.Publish(t.Context(), messages("first", 1)) }()
		synctest.Wait()
		var all sync.WaitGroup
		began := time.Now()
		var single, big time.Duration
		all.Go(func() { _, _ = r.Publish(t.Context(), messages("big", 1000)); big = time.Since(began) })
		synctest.Wait()
		all.Go(func() { _, _ = r.Publish(t.Context(), messages("single", 1)); single = time.Since(began) })
		all.Wait()
		// Simulated time: the call under way, and its own beside those of the large one.
		require.Equal(t, 2*time.Second, single)
		require.Equal(t, 5*time.Second, big)
		r.stop(t)
	})
}

func TestWhatIsMoreThanACallTakesGoesInAnotherMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		release := make(chan struct{})
		var calls atomic.Int32
		meanwhile := make(chan struct{})
		r.queue.hook = func(name string) error {
			if name != "schedule" {
				return nil
			}
			switch calls.Add(1) {
			case 1:
				<-release
			case 2:
				select {
				case <-meanwhile:
				case <-time.After(time.Second):
					t.Error("no other call was made meanwhile")
				}
			case 3:
				close(meanwhile)
			}
			return nil
		}
		r.start(t)
		var all sync.WaitGroup
		publish := func(prefix string, n int) {
			all.Go(func() {
				out, err := r.Publish(t.Context(), messages(prefix, n))
				if err != nil || len(out) != n || out[n-1].Result != d.Accepted {
					t.Errorf("publish %s: %d results, %v", prefix, len(out), err)
				}
			})
			synctest.Wait()
		}
		publish("first", 1)
		for i := range 8 {
			publish(fmt.Sprintf("large_%d", i), engine.FlushLeast-6)
		}
		close(release)
		all.Wait()
		total := 0
		for _, c := range r.queue.seen("schedule") {
			require.LessOrEqual(t, c.n, engine.FlushLeast)
			total += c.n
		}
		require.Equal(t, 1+8*(engine.FlushLeast-6), total)
		r.stop(t)
	})
}

func TestErrorsReachCallers(t *testing.T) {
	t.Parallel()
	lost := fmt.Errorf("dial: %w", d.ErrUnavailable)
	faults := map[string]func(q *testQueue, err error){
		"the call is not made":   func(q *testQueue, err error) { q.hook = failing("schedule", err) },
		"the answer is lost":     func(q *testQueue, err error) { q.after = failing("schedule", err) },
		"the answer never comes": func(q *testQueue, err error) { q.hook = slow("schedule", 6*time.Second) },
	}
	for name, set := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				r.queue.direct = true
				set(r.queue, lost)
				r.start(t)
				out, err := r.Publish(t.Context(), messages("m", 3))
				require.NoError(t, err)
				for _, p := range out {
					require.ErrorIs(t, p.Err, d.ErrUnavailable)
					require.Zero(t, p.Result)
				}
				synctest.Wait()
				require.Equal(t, 1024, r.FreePermits(), "permits of a call that failed are given back")
				r.stop(t)
			})
		})
	}
}

// failing fails each call of a name.
func failing(name string, err error) func(string) error {
	return func(call string) error {
		if call == name {
			return err
		}
		return nil
	}
}

// once fails the first call of a name.
func once(name string, err error) func(string) error {
	var met atomic.Bool
	return func(call string) error {
		if call == name && met.CompareAndSwap(false, true) {
			return err
		}
		return nil
	}
}

// slow makes each call of a name take a time.
func slow(name string, wait time.Duration) func(string) error {
	return func(call string) error {
		if call == name {
			time.Sleep(wait)
		}
		return nil
	}
}

func TestDirectLeasesAreDeliveredAndOtherPermitsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.direct = true
		r.sender.answer = takes(time.Second)
		r.start(t)
		later := message("later")
		later.Delay = time.Hour
		out, err := r.Publish(t.Context(), append(messages("now", 5), later))
		require.NoError(t, err)
		require.Equal(t, d.StatusInFlight, out[0].Deliveries[0].Status)
		require.Equal(t, d.StatusScheduled, out[5].Deliveries[0].Status)
		synctest.Wait()
		require.Equal(t, 6, r.queue.seen("schedule")[0].leased, "a permit is taken for each before it is known who needs one")
		require.Equal(t, 1024-5, r.FreePermits())
		pass(time.Second)
		require.Equal(t, 1024, r.FreePermits())
		require.Zero(t, r.Leases())
		require.Len(t, r.sender.sent(), 5)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 5}, r.queue.verdicts())
		for _, c := range r.queue.seen("claimed") {
			require.Zero(t, c.leased, "a direct lease is not claimed")
		}
		r.stop(t)
	})
}

func TestPublishAroundTheEndNeverHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		release := blockFirst(r.queue, "schedule")
		r.start(t)
		var all sync.WaitGroup
		publish := func(id string) {
			all.Go(func() {
				out, err := r.Publish(t.Context(), messages(id, 1))
				if err == nil && out[0].Result != d.Accepted {
					t.Errorf("publish %s: %+v", id, out[0])
				}
				if err != nil && !errors.Is(err, d.ErrUnavailable) {
					t.Errorf("publish %s: %v", id, err)
				}
			})
		}
		publish("before")
		synctest.Wait()
		for i := range 50 {
			publish(fmt.Sprintf("before_%d", i))
		}
		synctest.Wait()
		r.cancel()
		for i := range 2000 { // more than may wait
			publish(fmt.Sprintf("at_%d", i))
		}
		synctest.Wait()
		release()
		require.NoError(t, <-r.ended)
		all.Wait()
		_, err := r.Publish(t.Context(), messages("after", 1))
		require.ErrorIs(t, err, d.ErrUnavailable)
		_, err = r.Ready(t.Context())
		require.ErrorIs(t, err, d.ErrStopping)
		for i := range 50 {
			_, err := r.queue.still().Read(t.Context(), fmt.Sprintf("before_%d_0", i))
			require.NoError(t, err, "what waited when the end came is stored")
		}
	})
}

func TestWhatIsAcceptedAfterTheStopSignalIsLeftToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.direct = true
		release := blockFirst(r.queue, "schedule")
		r.start(t)
		var all sync.WaitGroup
		for _, id := range []string{"before", "waiting"} {
			all.Go(func() { _, _ = r.Publish(t.Context(), messages(id, 1)) })
			synctest.Wait()
		}
		r.cancel()
		synctest.Wait()
		release()
		require.NoError(t, <-r.ended)
		all.Wait()
		calls := r.queue.seen("schedule")
		require.Len(t, calls, 2)
		require.Equal(t, 1, calls[0].leased)
		require.Zero(t, calls[1].leased)
		require.Empty(t, r.sender.sent(), "nothing is begun any more, not even what was leased by a call under way")
		_, ready, leased := r.queue.places()
		require.Equal(t, 2, ready)
		require.Zero(t, leased)
	})
}

func TestAPublishEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		release := blockFirst(r.queue, "schedule")
		r.start(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Publish(ctx, messages("m", 1))
		require.ErrorIs(t, err, d.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		release()
		r.stop(t)
	})
}
