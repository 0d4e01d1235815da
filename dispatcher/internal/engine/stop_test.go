package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The end, and what may go wrong with it.

// drain begins the end and answers when it is reached.
func (r *rig) drain(ctx context.Context) (over chan struct{}) {
	over = make(chan struct{})
	go func() { r.Drain(ctx); close(over) }()
	synctest.Wait()
	return over
}

func ended(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestWhileItDrainsCallersAreAnsweredAndNothingIsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.direct = true
		r.sender.answer = takes(10 * time.Second)
		r.queue.later("u_0", "due", 5*time.Second)
		r.queue.fill(3)
		r.start(t)
		_, err := r.Ready(t.Context())
		require.NoError(t, err)
		over := r.drain(t.Context())
		_, err = r.Ready(t.Context())
		require.ErrorIs(t, err, d.ErrStopping, "from the signal on")
		claims := r.queue.count("claim")
		r.Note()
		out, err := r.Publish(t.Context(), messages("m", 2))
		require.NoError(t, err)
		require.Equal(t, d.Accepted, out[0].Result)
		require.Equal(t, d.StatusReady, out[0].Deliveries[0].Status, "for others")
		pass(9 * time.Second)
		require.False(t, ended(over))
		pass(time.Second)
		require.True(t, ended(over), "as soon as the attempts under way have ended")
		out, err = r.Publish(t.Context(), messages("late", 1))
		require.NoError(t, err)
		require.Equal(t, d.Accepted, out[0].Result, "until callers are told otherwise")
		pass(time.Minute)
		require.Greater(t, r.queue.count("beat"), 30, "it is alive")
		require.Equal(t, claims, r.queue.count("claim"))
		require.Zero(t, r.queue.count("move"))
		require.Equal(t, map[d.Verdict]int{d.Delivered: 3}, r.queue.verdicts())
		require.Zero(t, r.queue.count("leave"))
		r.stop(t)
		require.Equal(t, 1, r.queue.count("leave"))
		_, err = r.Publish(t.Context(), messages("after", 1))
		require.ErrorIs(t, err, d.ErrUnavailable)
	})
}

func TestADrainThatIsCutHandsBack(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{"by the grace time": 3 * time.Second, "by who waits": time.Hour, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Grace = grace })
				r.sender.answer = takes(10 * time.Second)
				r.queue.fill(3)
				r.start(t)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				over := r.drain(ctx)
				require.Equal(t, grace == 0, ended(over))
				pass(3 * time.Second)
				require.True(t, ended(over))
				require.Equal(t, map[d.Verdict]int{d.Back: 3}, r.queue.verdicts())
				r.Drain(t.Context()) // again
				r.stop(t)
				_, ready, leased := r.queue.places()
				require.Equal(t, 3, ready)
				require.Zero(t, leased)
			})
		})
	}
}

func TestADrainBeforeItRunsKeepsItFromTaking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.fill(3)
		r.Drain(t.Context())
		r.start(t)
		pass(time.Minute)
		require.Zero(t, r.queue.count("claim"))
		r.stop(t)
		require.Equal(t, 1, r.queue.count("leave"))
	})
}

func TestWhatIsLeasedByACallUnderWayWhenItDrainsGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		release := blockFirst(r.queue, "claim")
		r.queue.fill(3)
		r.Note()
		synctest.Wait()
		over := r.drain(t.Context())
		require.True(t, ended(over))
		release()
		synctest.Wait()
		require.Empty(t, r.sender.sent())
		require.Equal(t, map[d.Verdict]int{d.Back: 3}, r.queue.verdicts(), "at once")
		require.Equal(t, 1024, r.FreePermits())
		r.stop(t)
	})
}

// endWithin is the longest that the end takes when the queue hangs, besides the
// attempts. Waiting publishes have 5 s, outcomes have 5 s, and leases are handed back
// in 5 s; each of these may take one call longer.
const endWithin = 25 * time.Second

func TestTheEndComesWhateverTheQueueDoes(t *testing.T) {
	t.Parallel()
	faults := map[string]func(q *testQueue){}
	for _, name := range []string{"claim", "schedule", "settle", "leases", "leave", "move", "peek", "trim", "beat", "reap gone"} {
		faults[name+" hangs"] = func(q *testQueue) { q.hangs = name }
		faults[name+" fails"] = func(q *testQueue) { q.hook = failing(name, d.ErrUnavailable) }
	}
	faults["all fails"] = func(q *testQueue) { q.hook = func(string) error { return d.ErrUnavailable } }
	faults["a part of it is down"] = func(q *testQueue) { q.down = map[int]error{1: d.ErrUnavailable} }
	for name, set := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newThreeRig(t)
				r.queue.direct = true
				r.queue.other("gone", 7)
				r.sender.answer = takes(2 * time.Second)
				for _, lane := range lanesOfThree {
					r.queue.fillLane(lane, 5)
					r.queue.later(lane, "due", time.Second)
				}
				r.start(t)
				r.queue.set(func() { set(r.queue) })
				r.queue.fillLane("u_0", 5)
				r.queue.ears.OnGap()
				var all sync.WaitGroup
				for i := range 5 {
					all.Go(func() {
						out, err := r.Publish(t.Context(), messages(fmt.Sprint("m", i), 3))
						for _, p := range out {
							err = errors.Join(err, p.Err)
						}
						if err != nil && !errors.Is(err, d.ErrUnavailable) {
							t.Error(err)
						}
					})
				}
				pass(time.Second)
				began := time.Now()
				r.stop(t)
				require.Less(t, time.Since(began), endWithin)
				all.Wait()
				r.queue.set(func() { r.queue.hangs, r.queue.hook, r.queue.down = "", nil, nil })
				requireNothingLost(t, r.queue)
			})
		})
	}
}

// requireNothingLost says that each delivery is in one place.
func requireNothingLost(t *testing.T, q *testQueue) {
	t.Helper()
	setup := redisqtest.Setup{Partitions: q.partitions, LaneMaxInFlight: laneMaxInFlight, Permits: 1024, BreakerWait: breakerWait}
	for n := range q.partitions { // which the reader compares times with
		require.NoError(t, q.Set(keys.Tag(project, n)+keys.Clock, strconv.FormatInt(q.now().UnixMicro(), 10)))
	}
	for n, s := range redisqtest.States(t, q.still().Client(), project, q.partitions) {
		require.Empty(t, s.Faults(setup), "partition %d", n)
	}
}

func TestWhoIsDeclaredDeadWhileItDrainsLeavesUnderItsNewName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.sender.answer = takes(10 * time.Second)
		r.queue.fill(3)
		r.start(t)
		over := r.drain(t.Context())
		r.queue.fence("here") // by another instance, which has them now
		r.queue.take("other", 3)
		<-over
		synctest.Wait()
		require.Equal(t, "here-2", r.Name())
		require.Zero(t, r.Leases())
		r.stop(t)
		require.Equal(t, "here-2", r.queue.seen("leave")[0].by)
		_, _, leased := r.queue.places()
		require.Equal(t, 3, leased, "the other's are untouched")
		require.Positive(t, r.queue.count("reap here"), "whatever might still be held under the old name is taken over")
	})
}

func TestAnEndWithPartOfTheQueueDownHandsBackTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newThreeRig(t)
		r.sender.answer = takes(time.Second)
		for _, lane := range lanesOfThree {
			r.queue.fillLane(lane, 2)
		}
		r.start(t)
		plant(r.queue, "unknown")
		r.queue.cutOff(1)
		r.stop(t)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 4, d.Back: 1}, r.queue.verdicts())
		require.Zero(t, r.queue.count("leave"), "what it holds must be found by others")
		require.Contains(t, r.log.String(), "could not sign off")
	})
}

func TestWhatWasAttemptedIsNotHandedBackAsIfItWereNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.sender.answer = takes(time.Second)
		r.queue.fill(3)
		r.start(t)
		var back atomic.Bool // it answers again, when all that was tried had failed
		r.queue.set(func() {
			r.queue.hook = func(name string) error {
				if name == "leases" {
					back.Store(true)
				}
				if name == "settle" && !back.Load() {
					return d.ErrUnavailable
				}
				return nil
			}
		})
		r.stop(t)
		require.Empty(t, r.queue.outcomes(), "others take over, and it counts as a death of its holder")
		require.Zero(t, r.queue.count("leave"))
	})
}
