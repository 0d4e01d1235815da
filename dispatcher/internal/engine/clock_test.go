package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Clocks that jump, and machines that sleep.

// sleepy is a rig on a machine that may sleep: the queue's and the host's clock
// go on then, and nothing else.
type sleepy struct {
	*rig
	slept atomic.Int64
}

func newSleepyRig(t testing.TB) *sleepy {
	s := &sleepy{rig: newTestRig(t, nil)}
	s.SetWall(func(now time.Time) time.Time { return now.Round(0).Add(time.Duration(s.slept.Load())) })
	return s
}

func (s *sleepy) sleep(wait time.Duration) {
	s.queue.set(func() { s.queue.skew.Add(int64(wait)) })
	s.slept.Add(int64(wait))
}

func TestTheQueuesClockIsKnownBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.set(func() { r.queue.skew.Store(int64(-time.Hour)) })
		require.Equal(t, time.Hour, r.Now().Sub(r.queue.now()).Round(time.Second))
		require.NoError(t, r.ReadClock(t.Context()))
		require.Zero(t, r.Now().Sub(r.queue.now()).Round(time.Second))

		r.queue.set(func() { r.queue.hook = failing("peek", d.ErrUnavailable) })
		require.ErrorIs(t, r.ReadClock(t.Context()), d.ErrUnavailable)
	})
}

func TestWhoSleptLeasesNothingBeforeItsBeatIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newSleepyRig(t)
		r.queue.direct = true
		r.start(t)
		pass(wait.BeatEvery + wait.BeatEvery/2)
		r.queue.set(func() { r.queue.hook = failing("beat", d.ErrUnavailable) })
		r.sleep(10 * time.Minute)
		r.queue.fill(3)
		r.Note()
		_, err := r.Publish(t.Context(), messages("m", 2))
		require.NoError(t, err)
		pass(wait.BeatOld)
		require.Zero(t, r.queue.count("claim"), "though the monotonic clock saw no time go by")
		require.Zero(t, r.queue.seen("schedule")[0].leased)
		r.queue.set(func() { r.queue.hook = nil })
		pass(wait.BeatEvery)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 5}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestWhatBecameDueInASleepIsLookedForAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newSleepyRig(t)
		r.queue.later("u_0", "m", 5*time.Minute)
		r.queue.later("u_0", "next", 11*time.Minute)
		r.start(t)
		pass(time.Minute)
		looks := r.queue.count("leases")
		r.sleep(10*time.Minute - time.Second)
		require.Empty(t, r.sender.sent())
		pass(wait.BeatEvery)
		require.Len(t, r.sender.sent(), 2, "each timer would take minutes more")
		require.Equal(t, fmt.Sprint(r.queue.now().Unix()), r.sender.sent()[0].Header.Get("Webhook-Timestamp"))
		pass(2 * engine.ReconcileAfter)
		require.Greater(t, r.queue.count("leases"), looks, "and others may have taken over")
		require.Contains(t, r.log.String(), "the machine slept")
		r.stop(t)
	})
}

func TestWhatIsNotBegunWhenTheProcessStandsStillGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newSleepyRig(t)
		r.sender.answer = takes(time.Second)
		r.queue.spread(400)
		r.start(t) // no simulated time goes by, so that only the places run
		begun := len(r.sender.sent())
		require.Less(t, begun, 400)
		r.sleep(time.Minute)
		pass(wait.BeatEvery / 2)
		require.Len(t, r.sender.sent(), begun, "others may attempt them by now")
		require.Equal(t, 400-begun, r.queue.verdicts()[d.Back])
		pass(10 * time.Second)
		require.Equal(t, map[d.Verdict]int{d.Back: 400 - begun, d.Delivered: 400}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestAJumpOfTheQueuesClockIsLoggedWithItsSizeAndItsCure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		pass(time.Minute)
		require.NotContains(t, r.log.String(), "jumped")
		r.queue.set(func() { r.queue.skew.Store(int64(25 * time.Hour)) })
		pass(time.Minute)
		r.queue.set(func() { r.queue.skew.Store(0) })
		pass(time.Minute)
		log := r.log.String()
		require.Equal(t, 2, strings.Count(log, "the clock of redis jumped"), "once each: %s", log)
		require.Regexp(t, `WARN.*the clock of redis jumped.*jumped_s=90000 host_jumped_s=0 .*attempted too early.*hookladder doctor`, log)
		require.Regexp(t, `jumped_s=-90000 host_jumped_s=0 effect="what failed or was delayed before is due too late"`, log)
		r.stop(t)
	})
}

func TestNobodyIsTakenOverForAClock(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{10 * time.Second, -10 * time.Second, time.Hour, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				number := int64(1)
				r.queue.other("other", number)
				r.queue.later("u_0", "m", 2*time.Minute)
				r.queue.later("u_0", "far", 3*time.Hour)
				due := r.queue.now().Add(2 * time.Minute)
				r.start(t)
				beat := func(n int) {
					for range n {
						number++
						r.queue.other("other", number)
						pass(wait.BeatEvery)
					}
				}
				beat(15)
				r.queue.set(func() { r.queue.skew.Store(int64(jump)) }) // another master took over
				r.queue.ears.OnGap()
				left := due.Sub(r.queue.now())
				beat(int(max(left, 0)/wait.BeatEvery) - 2)
				if left > 0 {
					require.Empty(t, r.sender.sent(), "not early by the clock that counts")
				}
				beat(4)
				require.Len(t, r.sender.sent(), 1)
				beat(30)
				require.Len(t, r.sender.sent(), 1)
				require.Zero(t, r.queue.count("reap other"))
				require.Equal(t, "here", r.Name())
				r.stop(t)
			})
		})
	}
}

func TestAHostsClockThatIsSetCostsNothingButALook(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{10 * time.Second, -10 * time.Second, time.Hour, -time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newSleepyRig(t)
				r.queue.later("u_0", "m", time.Minute)
				number := int64(1)
				r.queue.other("other", number)
				r.start(t)
				pass(time.Second)
				r.slept.Store(int64(jump))
				for range 40 {
					number++
					r.queue.other("other", number)
					pass(wait.BeatEvery)
				}
				require.Len(t, r.sender.sent(), 1)
				require.WithinDuration(t, r.queue.outcomes()[0].Due, r.queue.outcomes()[0].Attempt.At, moment, "to the moment")
				require.Zero(t, r.queue.count("reap other"))
				r.stop(t)
			})
		})
	}
}

func TestAnAttemptBeganWhenItWasSentThoughTheClockWasBehindThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		var sent []time.Time
		r.sender.answer = func(context.Context, d.Call) d.Answer {
			if len(sent) == 0 {
				r.queue.set(func() { r.queue.skew.Add(int64(1300 * time.Millisecond)) })
			}
			sent = append(sent, r.queue.now())
			time.Sleep(time.Second)
			require.NoError(t, r.ReadClock(t.Context())) // an answer tells the time meanwhile
			return d.Answer{Status: 500, Took: time.Second}
		}
		s := deliverOne(t, r, claimed(message("m")))
		require.WithinDuration(t, sent[0], s.Attempt.At, moment)
	})
}
