package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// newClaimRig has a queue whose only lane weighs 3.
func newClaimRig(t testing.TB, permits int) *rig {
	return newTestRig(t, func(o *engine.Options, q *testQueue, _ *fakeSender) {
		o.MaxInFlight = permits
	})
}

func TestAClaimThatGotNothingNeitherSpinsNorStalls(t *testing.T) {
	t.Parallel()
	for _, permits := range []int{1, 2, 16, 1024} {
		for _, taken := range []int{0, 1} {
			if taken == permits {
				continue
			}
			t.Run(fmt.Sprintf("%d permits, %d of them taken", permits, taken), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newClaimRig(t, permits)
					r.queue.heavy.Store(true)
					require.Equal(t, taken, r.TakePermits(taken))
					r.start(t)
					require.Zero(t, r.queue.count("claim"))
					r.queue.fill(1)
					pass(10 * time.Minute)
					// Each look of the guard is news, and allows one more.
					require.LessOrEqual(t, r.queue.count("claim"), r.queue.count("peek"))
					require.Positive(t, r.queue.count("claim"))

					before := r.queue.count("claim")
					r.queue.heavy.Store(false)
					if taken > 0 {
						r.GivePermits(taken) // more are free than were when it was tried
					} else {
						r.Note()
					}
					synctest.Wait()
					require.Greater(t, r.queue.count("claim"), before)
					require.Len(t, r.sender.sent(), 1)
					r.stop(t)
				})
			})
		}
	}
}

func TestNewsOfWorkMakesItClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 16)
		r.start(t)
		_, err := r.queue.open(0, false).Schedule(t.Context(), "other", 0, 0, []d.Entry{r.queue.entry("u_0", message("told"))})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, r.sender.sent(), 1)
		r.stop(t)
	})
}

func TestAPermitThatComesFreeMakesItClaim(t *testing.T) {
	t.Parallel()
	for _, permits := range []int{1, 2, 16, 256} {
		t.Run(fmt.Sprint(permits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClaimRig(t, permits)
				r.sender.answer = takes(time.Second)
				r.queue.spread(3 * permits)
				r.start(t)
				pass(500 * time.Millisecond)
				require.LessOrEqual(t, len(r.sender.sent()), permits)
				pass(5 * time.Second)
				require.Len(t, r.sender.sent(), 3*permits)
				require.Equal(t, permits, r.FreePermits())
				r.stop(t)
			})
		})
	}
}

func TestAnInstanceIsBusyAsLongAsItHasALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 16)
		r.sender.answer = takes(time.Second)
		r.start(t)
		pass(time.Second)
		require.False(t, r.Doing().Busy)
		r.queue.fill(1)
		r.Note()
		pass(500 * time.Millisecond)
		require.True(t, r.Doing().Busy)
		pass(5 * time.Second)
		require.False(t, r.Doing().Busy)
		r.stop(t)
	})
}

func TestClaimsNeverExceedPermits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const permits = 10
		r := newTestRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
			o.MaxInFlight, o.ClaimBatch = permits, 4
			q.partitions = 6
			s.answer = takes(100 * time.Millisecond)
		})
		r.queue.direct = true
		r.start(t)
		for i := range 20 {
			r.queue.fill(3)
			go func() { _, _ = r.Publish(t.Context(), messages(fmt.Sprintf("p_%d", i), 2)) }()
			r.Note()
			pass(30 * time.Millisecond)
			_, _, leased := r.queue.places()
			require.LessOrEqual(t, leased, permits)
		}
		pass(time.Minute)
		require.Len(t, r.sender.sent(), 20*5)
		for _, c := range r.queue.seen("claim") {
			require.Positive(t, c.n)
			require.LessOrEqual(t, c.n, c.free)
			require.LessOrEqual(t, c.free, permits)
			require.LessOrEqual(t, c.n, 4*4)
		}
		require.Equal(t, permits, r.FreePermits())
		r.stop(t)
	})
}

func TestABeatAfterItMightNotLeaseMakesItClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 16)
		r.start(t)
		r.queue.set(func() { r.queue.hook = failing("beat", d.ErrUnavailable) })
		pass(2 * wait.BeatOld)
		r.queue.fill(3)
		r.Note()
		pass(5 * time.Second)
		require.Zero(t, r.queue.count("claim"), "it may have been declared dead")
		r.queue.set(func() { r.queue.hook = nil })
		pass(wait.BeatEvery)
		require.Len(t, r.sender.sent(), 3)
		r.stop(t)
	})
}

func TestAnInstanceThatWasFencedGoesOnUnderAnotherName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 16)
		r.start(t)
		r.queue.fence("here")
		pass(time.Second)
		r.queue.fill(3)
		r.Note()
		synctest.Wait()
		require.Equal(t, "here-2", r.Name(), "the claim met it, before the next beat")
		pass(2 * wait.BeatEvery)
		require.Equal(t, "here-2", r.Name(), "one other name, and not one for each stage that met it")
		require.Len(t, r.sender.sent(), 3)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 3}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestTwoStagesThatMeetOneDeathAgreeOnOneNewName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 16)
		r.start(t)
		pass(time.Second)
		release := blockFirst(r.queue, "claim")
		r.queue.fence("here")
		r.queue.fill(3)
		r.Note()
		pass(wait.BeatEvery)
		require.Equal(t, "here-2", r.Name(), "the beat met it first")
		release() // and now the claim does
		pass(2 * wait.BeatEvery)
		require.Equal(t, "here-2", r.Name())
		require.Equal(t, map[d.Verdict]int{d.Delivered: 3}, r.queue.verdicts())
		r.stop(t)
	})
}

// manyReady is a number of deliveries with which more of them wait for a slot than there are slots.
const manyReady = 700

func TestMessagesAreReadLaterWhileEnoughDeliveriesWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 1024)
		r.sender.answer = takes(time.Millisecond)
		r.queue.spread(manyReady)
		r.start(t)
		pass(time.Second)
		require.Positive(t, r.queue.count("unread"))
		require.Len(t, r.sender.sent(), manyReady)
		require.Equal(t, map[d.Verdict]int{d.Delivered: manyReady}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestAFewDeliveriesComeWithTheirMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 1024)
		r.sender.answer = takes(time.Second)
		for range 20 {
			r.queue.spread(3)
			r.Note()
			pass(100 * time.Millisecond)
		}
		r.start(t)
		pass(time.Minute)
		require.Zero(t, r.queue.count("unread"))
		require.Zero(t, r.queue.count("messages"))
		require.Len(t, r.sender.sent(), 60)
		r.stop(t)
	})
}

// All permits are in use before all messages were read, so no claim can read them.
func TestUnreadDeliveriesDoNotWaitForAFreePermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 512)
		r.sender.answer = takes(time.Minute)
		r.queue.spread(manyReady)
		r.start(t)
		pass(5 * time.Second)
		require.Positive(t, r.queue.count("unread"))
		require.Positive(t, r.queue.count("messages"))
		require.GreaterOrEqual(t, len(r.sender.sent()), 512)
		r.stop(t)
	})
}

func TestUnreadDeliveriesGoBackAtTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 1024)
		r.sender.answer = takes(time.Second)
		r.queue.spread(manyReady)
		stopped := false
		r.queue.after = func(call string) error {
			if r.queue.count("unread") > 0 && !stopped {
				stopped = true
				r.cancel()
			}
			return nil
		}
		r.start(t)
		pass(time.Minute)
		require.True(t, stopped)
		_, ready, leased := r.queue.places()
		require.Zero(t, leased)
		require.Equal(t, manyReady, ready+len(r.sender.sent()))
		require.NoError(t, <-r.ended)
	})
}

func TestDeliveriesGoBackWhoseMessagesCouldNotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 512)
		r.sender.answer = takes(time.Second)
		r.queue.spread(manyReady)
		failed := 0
		r.queue.hook = func(call string) error {
			if call == "messages" && failed == 0 {
				failed++
				return d.ErrUnavailable
			}
			return nil
		}
		r.start(t)
		pass(time.Minute)
		require.Equal(t, 1, failed)
		require.Positive(t, r.queue.verdicts()[d.Back])
		require.Equal(t, manyReady, r.queue.verdicts()[d.Delivered])
		require.Len(t, r.sender.sent(), manyReady)
		r.stop(t)
	})
}

func TestADeliveryWithoutAMessageIsDroppedThoughMessagesAreReadLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 1024)
		r.sender.answer = takes(time.Second)
		r.queue.spread(manyReady)
		for _, key := range r.queue.Keys() {
			if strings.HasSuffix(key, keys.Messages) {
				for i := range manyReady {
					if i%2 == 0 {
						r.queue.HDel(key, fmt.Sprint("filled_", i))
					}
				}
			}
		}
		r.start(t)
		pass(time.Minute)
		require.Positive(t, r.queue.count("unread"))
		due, ready, leased := r.queue.places()
		require.Zero(t, due+ready+leased)
		require.Len(t, r.sender.sent(), manyReady/2)
		r.stop(t)
	})
}
