package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// requireEachOnce says that n deliveries ended, each by one settlement.
func requireEachOnce(t *testing.T, q *testQueue, n int) {
	t.Helper()
	_, _, leased := q.places()
	require.Zero(t, leased)
	q.mu.Lock()
	defer q.mu.Unlock()
	require.Len(t, q.settled, n)
	for id, list := range q.settled {
		require.Len(t, list, 1, id.String())
	}
}

func TestAFailedSettleIsRepeatedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	faults := map[string]func(q *testQueue, err error){
		"the call is not made": func(q *testQueue, err error) { q.hook = failing("settle", err) },
		"the answer is lost":   func(q *testQueue, err error) { q.after = failing("settle", err) },
	}
	for name, set := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				set(r.queue, d.ErrUnavailable)
				r.queue.fill(300)
				r.start(t)
				pass(time.Minute)
				require.Less(t, r.queue.count("settle"), 200, "it waits between")
				require.Len(t, r.sender.sent(), 300, "an outcome that is not recorded is not attempted again")
				r.queue.set(func() { r.queue.hook, r.queue.after = nil, nil })
				pass(5 * time.Second)
				require.Zero(t, r.Leases())
				requireEachOnce(t, r.queue, 300)
				for _, c := range r.queue.seen("settle") {
					require.LessOrEqual(t, c.n, engine.SettleMost)
				}
				r.stop(t)
			})
		})
	}
}

func TestOutcomesOfOnePartOfABatchAreNotGivenTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.refuse = func(id d.DeliveryID, times int) bool { return id.Message[len(id.Message)-1] == '7' && times < 3 }
		r.queue.fill(100)
		r.start(t)
		pass(time.Minute)
		requireEachOnce(t, r.queue, 100)
		require.Zero(t, r.Leases())
		given := 0
		for _, c := range r.queue.seen("settle") {
			given += c.n
		}
		require.Equal(t, 100+3*10, given, "only what was not recorded is given again")
		r.stop(t)
	})
}

func TestClaimingStopsWhenTooManyOutcomesWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.MaxInFlight = 16 })
		most := 4 * engine.SettleMost
		all := most + 2*engine.SettleMost
		r.queue.hook = failing("settle", d.ErrUnavailable)
		r.queue.fill(all)
		r.start(t)
		pass(time.Minute)
		require.Greater(t, len(r.sender.sent()), most)
		// One batch may be on its way to the queue, and the permits are in the air.
		require.LessOrEqual(t, len(r.sender.sent()), most+engine.SettleMost+2*16)
		at := r.queue.count("claim")
		pass(time.Minute)
		require.LessOrEqual(t, len(r.sender.sent()), most+engine.SettleMost+2*16)
		require.LessOrEqual(t, r.queue.count("claim"), at+engine.SettleMost)
		r.queue.set(func() { r.queue.hook = nil })
		pass(5 * time.Second)
		require.Len(t, r.sender.sent(), all)
		requireEachOnce(t, r.queue, all)
		r.stop(t)
	})
}

func TestOutcomesPutAtTheEndAreRecorded(t *testing.T) {
	t.Parallel()
	for i := range 30 { // the end and the last outcome come at one moment
		synctest.Test(t, func(t *testing.T) {
			r := newTestRig(t, nil)
			r.sender.answer = takes(time.Second)
			r.queue.fill(3 + i)
			r.start(t)
			r.stop(t)
			require.Equal(t, map[d.Verdict]int{d.Delivered: 3 + i}, r.queue.verdicts())
			requireEachOnce(t, r.queue, 3+i)
		})
	}
}

func TestWhatCannotBeRecordedDoesNotHoldUpTheEndForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.hook = failing("settle", d.ErrUnavailable)
		r.queue.fill(3)
		r.start(t)
		began := time.Now()
		r.stop(t)
		require.Less(t, time.Since(began), time.Minute)
		require.Contains(t, r.log.String(), "outcomes not recorded")
	})
}

func TestTheTrimmerRunsAfterWorkHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.PollEvery = 24 * time.Hour })
		r.start(t)
		more := func(n int) {
			r.queue.fill(n)
			r.Note()
			pass(time.Second)
		}
		more(engine.TrimAfter - 1)
		require.Zero(t, r.queue.count("trim"))
		more(1)
		require.Equal(t, 1, r.queue.count("trim"))
		r.queue.set(func() { r.queue.more = 5 })
		more(engine.TrimAfter)
		require.Equal(t, 1+6, r.queue.count("trim"), "while there is more to forget")
		for _, c := range r.queue.seen("trim") {
			require.False(t, c.room)
		}
		r.stop(t)
	})
}

// An instance does not hear its own hints.
func TestTheClaimerIsToldOfALaneThatATrimPlacedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.PollEvery = 24 * time.Hour })
		r.start(t)
		more := func() {
			r.queue.fill(engine.TrimAfter)
			r.Note()
			pass(time.Millisecond)
		}
		more()
		require.Equal(t, 1, r.queue.count("trim"))
		more()
		r.queue.fill(1)
		pass(10 * time.Millisecond)
		_, ready, _ := r.queue.places()
		require.Equal(t, 1, ready, "nothing tells of it")
		r.queue.set(func() { r.queue.placing = true })
		pass(time.Second)
		require.Equal(t, 2, r.queue.count("trim"))
		_, ready, _ = r.queue.places()
		require.Zero(t, ready)
		r.stop(t)
	})
}

func TestOnlyWhatEndedCountsForTheTrimmer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.PollEvery = 24 * time.Hour })
		r.sender.answer = func(context.Context, d.Call) d.Answer { return d.Answer{Status: 500} }
		r.queue.fill(2 * engine.TrimAfter)
		r.start(t)
		require.Equal(t, map[d.Verdict]int{d.Retry: 2 * engine.TrimAfter}, r.queue.verdicts())
		pass(time.Second)
		require.Zero(t, r.queue.count("trim"), "what is tried again has not ended")
		pass(4 * time.Minute)
		require.Equal(t, 2*engine.TrimAfter, r.queue.verdicts()[d.Dead])
		require.Positive(t, r.queue.count("trim"))
		r.stop(t)
	})
}

func TestTheWatcherLooksAtEverythingWhenHintsMayBeLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.partitions = 5 })
		r.start(t)
		before := r.queue.count("peek")
		r.queue.fill(3) // without a hint
		pass(time.Second)
		require.Empty(t, r.sender.sent())
		r.queue.ears.OnGap()
		synctest.Wait()
		require.Equal(t, before+1, r.queue.count("peek"))
		require.Equal(t, 5, r.queue.seen("peek")[before].n)
		require.Len(t, r.sender.sent(), 3)
		r.stop(t)
	})
}

func TestAWatchThatEndsIsBegunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		var failed atomic.Int64
		r.queue.hook = func(name string) error {
			if name == "watch" && failed.Add(1) < 20 {
				return fmt.Errorf("connection: %w", d.ErrUnavailable)
			}
			return nil
		}
		r.start(t)
		pass(time.Minute)
		r.queue.fill(1)
		r.queue.ears.OnGap()
		pass(engine.PollLeast)
		require.Len(t, r.sender.sent(), 1)
		r.stop(t)
	})
}

// The end.

func TestTheEndIsOrderly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, s *fakeSender) {
			o.MaxInFlight, o.Grace = 20, 10*time.Second
			s.answer = func(ctx context.Context, c d.Call) d.Answer {
				wait := 5 * time.Second
				if id := c.Header.Get("Webhook-Id"); id[len(id)-1]%2 == 1 {
					wait = time.Hour
				}
				return takes(wait)(ctx, c)
			}
		})
		r.queue.spread(20)
		r.start(t)
		require.Len(t, r.sender.sent(), 20)
		claims := r.queue.count("claim")
		began := time.Now()
		r.cancel()
		synctest.Wait()
		r.queue.fill(10)
		r.Note()
		require.NoError(t, <-r.ended)
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Equal(t, claims, r.queue.count("claim"), "nothing is claimed after the stop signal")
		require.Len(t, r.sender.sent(), 20)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 10, d.Back: 10}, r.queue.verdicts())
		_, ready, leased := r.queue.places()
		require.Equal(t, 20, ready)
		require.Zero(t, leased)
		all := r.queue.seen("")
		require.Equal(t, "leave", all[len(all)-1].name)
		require.Equal(t, 1, r.queue.count("leave"))
		for _, s := range r.queue.outcomes() {
			if s.Verdict == d.Back {
				require.Zero(t, s.Attempt.Number, "no attempt is spent on what was cut")
				require.False(t, s.Due.IsZero(), "it goes back to where it was")
			}
		}
	}) // a goroutine that is left fails the test here
}

func TestWhatWasNotBegunGoesBackAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, s *fakeSender) {
			s.answer = takes(time.Second)
		})
		r.queue.fill(1000)
		r.start(t) // no simulated time goes by, so that only the places run
		begun := len(r.sender.sent())
		require.Less(t, begun, 1000)
		r.stop(t)
		require.Len(t, r.sender.sent(), begun)
		_, _, leased := r.queue.places()
		require.Zero(t, leased)
		require.Equal(t, begun, r.queue.verdicts()[d.Delivered])
		require.Equal(t, 1024, r.FreePermits())
	})
}

func TestTheEndHandsBackWhatNobodyKnewOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		r.queue.set(func() { r.queue.after = failing("claim", d.ErrUnavailable) })
		r.queue.fill(5)
		r.Note()
		synctest.Wait()
		r.stop(t)
		_, ready, leased := r.queue.places()
		require.Equal(t, 5, ready)
		require.Zero(t, leased)
		require.Empty(t, r.sender.sent())
	})
}

func TestTheEndWhilePermitsAreGatheredClaimsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		require.Equal(t, 1020, r.TakePermits(1020))
		r.queue.fill(3)
		r.Note()
		synctest.Wait() // four are gathered, and it waits a moment for more
		require.Equal(t, 0, r.FreePermits())
		r.stop(t)
		require.Zero(t, r.queue.count("claim"))
		require.Equal(t, 4, r.FreePermits())
	})
}
