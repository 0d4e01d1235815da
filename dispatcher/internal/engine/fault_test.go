package engine_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// What goes wrong with the queue, and what must go on.

// slowing lets time go by after many calls in a row, so that a stage that spins
// fails its test instead of hanging it.
func slowing(q *testQueue) func(string) error {
	return func(name string) error {
		if q.count(name)%200 == 0 {
			time.Sleep(time.Second)
		}
		return nil
	}
}

func TestAClockThatWentBackIsBelieved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 16)
		r.queue.hook = slowing(r.queue)
		r.queue.fill(1)
		r.start(t)
		require.Len(t, r.sender.sent(), 1)
		r.queue.set(func() { r.queue.skew.Store(int64(-time.Hour)) }) // another node took over
		late := message("late")
		late.Delay = 10 * time.Second
		out, err := r.Publish(t.Context(), []*d.Message{late, message("soon")})
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
		pass(9 * time.Second)
		require.Len(t, r.sender.sent(), 2)
		moves, claims := r.queue.count("move"), r.queue.count("claim")
		pass(time.Second + moment)
		require.Len(t, r.sender.sent(), 3, "to the moment")
		pass(10 * time.Minute)
		require.LessOrEqual(t, r.queue.count("move"), moves+2)
		require.LessOrEqual(t, r.queue.count("claim"), claims+4)
		r.stop(t)
	})
}

func TestASlowAnswerIsNoNewClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, 16)
		r.start(t)
		pass(10 * time.Second)
		r.queue.fill(1)
		now := r.queue.now()
		r.queue.set(func() { r.queue.hook = failing("claim", d.ErrUnavailable) })
		r.Note()
		looks := r.queue.count("peek")
		r.queue.hint(now.Add(-5*time.Second), -1)         // knows nothing of it
		r.queue.hint(now.Add(-4500*time.Millisecond), -1) // and seems to be newer
		synctest.Wait()
		r.queue.set(func() { r.queue.hook = nil })
		pass(5 * time.Second)
		require.Greater(t, r.queue.count("peek"), looks)
		require.Len(t, r.sender.sent(), 1)
		r.stop(t)
	})
}

func TestTheFirstAttemptHasTheQueuesTime(t *testing.T) {
	t.Parallel()
	for range 20 { // attempts and what they have their time from come at one moment
		synctest.Test(t, func(t *testing.T) {
			r := newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.skew.Store(int64(-time.Hour)) })
			r.queue.direct = true
			r.queue.hook = failing("peek", d.ErrUnavailable) // nothing was heard before
			r.start(t)
			_, err := r.Publish(t.Context(), messages("m", engine.FlushLeast))
			require.NoError(t, err)
			synctest.Wait()
			require.NotEmpty(t, r.sender.sent())
			for _, c := range r.sender.sent() {
				require.Equal(t, strconv.FormatInt(r.queue.now().Unix(), 10), c.Header.Get("Webhook-Timestamp"))
			}
			r.stop(t)
		})
	}
}

func TestAStageThatGoesOnFailingIsNotToldOfAgainAndAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.hook = failing("peek", d.ErrUnavailable) // beats go on
		r.start(t)
		pass(30 * time.Minute)
		require.LessOrEqual(t, strings.Count(r.log.String(), `msg="store lost"`), 2)
		require.LessOrEqual(t, strings.Count(r.log.String(), "store back"), 1)
		before := strings.Count(r.log.String(), "store back")
		r.queue.set(func() { r.queue.hook = nil })
		pass(2 * outage.Calm)
		require.Equal(t, before+1, strings.Count(r.log.String(), "store back"))
		require.Equal(t, strings.Count(r.log.String(), `msg="store lost"`), strings.Count(r.log.String(), "store back"))
		r.stop(t)
	})
}

func TestAStoreThatIsLostAndBackIsToldOfOnceEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		for n := 1; n <= 3; n++ {
			pass(time.Minute)
			r.queue.set(func() { r.queue.hook = func(string) error { return d.ErrUnavailable } })
			r.Note()
			pass(time.Minute)
			require.Equal(t, n, strings.Count(r.log.String(), `msg="store lost"`))
			require.Equal(t, n-1, strings.Count(r.log.String(), "store back"))
			r.queue.set(func() { r.queue.hook = nil })
			pass(wait.BeatEvery)
			require.Equal(t, n, strings.Count(r.log.String(), "store back"), "at the first call that works")
		}
		r.stop(t)
	})
}

// A part of the queue that does not answer.

func TestOutcomesThatCannotBeRecordedHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.fill(2 * engine.SettleMost)
		stuck := map[d.DeliveryID]bool{}
		for i := range 2 * engine.SettleMost {
			stuck[d.DeliveryID{Lane: "u_0", Message: fmt.Sprint("filled_", i)}] = true
		}
		r.queue.refuse = func(id d.DeliveryID, _ int) bool { return stuck[id] }
		r.start(t)
		pass(time.Minute)
		require.Empty(t, r.queue.outcomes())
		r.queue.fillLane("u_1", 50)
		r.Note()
		pass(10 * time.Second)
		require.Len(t, r.queue.outcomes(), 50)
		calls := r.queue.count("settle")
		pass(time.Minute)
		require.LessOrEqual(t, r.queue.count("settle"), calls+60, "it waits between")
		r.queue.set(func() { r.queue.refuse = nil })
		pass(10 * time.Second)
		requireEachOnce(t, r.queue, 2*engine.SettleMost+50)
		require.Zero(t, r.Leases())
		r.stop(t)
	})
}

func TestAtTheEndOutcomesHaveALastChance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		var first time.Time
		over := false
		r.queue.hook = func(name string) error {
			if name != "settle" || over {
				return nil
			}
			if first.IsZero() {
				first = time.Now()
			}
			over = time.Since(first) > 2*time.Second // this one fails as well
			return d.ErrUnavailable
		}
		r.sender.answer = takes(time.Second)
		r.queue.fill(5)
		r.start(t)
		r.stop(t)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 5}, r.queue.verdicts(), "and not handed back as if never made")
		requireEachOnce(t, r.queue, 5)
		require.Zero(t, r.Leases())
	})
}

func TestAPublishToAQueueThatHangsDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		r.queue.hangs = "schedule"
		r.start(t)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				out, err := r.Publish(t.Context(), messages(fmt.Sprint("m", i), 1000))
				for _, p := range out {
					err = errors.Join(err, p.Err)
				}
				if !errors.Is(err, d.ErrUnavailable) {
					t.Errorf("publish %d: %v", i, err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		r.stop(t)
		all.Wait()
		require.LessOrEqual(t, time.Since(began), 11*time.Second)
	})
}

func TestRoomIsMadeForAllThatIsWanted(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ old, trims, accepted int }{
		"enough is finished":  {old: 1000, trims: 4, accepted: 200},
		"some is finished":    {old: 100, trims: 3, accepted: 100},
		"nothing is finished": {old: 0, trims: 1, accepted: 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, acceptsOnly)
				r.queue.tight, r.queue.old = true, c.old
				r.start(t)
				out, err := r.Publish(t.Context(), messages("m", 200))
				require.NoError(t, err)
				accepted := 0
				for _, p := range out {
					if p.Result == d.Accepted {
						accepted++
					} else {
						require.ErrorIs(t, p.Err, d.ErrFull)
					}
				}
				require.Equal(t, c.accepted, accepted)
				require.Equal(t, c.trims, r.queue.count("trim"))
				require.Equal(t, 2, r.queue.count("schedule"))
				r.stop(t)
			})
		})
	}
}

func TestAWatchThatEndsAtOnceIsNotBegunWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.deaf = true })
		r.start(t)
		pass(10 * time.Minute)
		require.Less(t, r.queue.count("watch"), 700)
		require.Greater(t, r.queue.count("watch"), 200)
		r.stop(t)
	})
}

func TestACallThatHangsIsGivenUpAndTheHeartGoesOn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claim", "leases", "schedule", "settle", "move", "peek", "trim"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				r.queue.direct = true
				r.queue.fill(2)
				r.start(t)
				later := message("later")
				later.Delay = time.Second
				_, err := r.Publish(t.Context(), []*d.Message{later})
				require.NoError(t, err)
				pass(time.Millisecond)
				r.queue.set(func() { r.queue.hangs = name })
				r.queue.fill(2)
				r.queue.ears.OnGap()
				go func() { _, _ = r.Publish(t.Context(), messages("m", 2)) }()
				r.Note()
				pass(2 * time.Minute)
				again := map[string]int{"schedule": 2, "trim": 1} // these wait for callers, and for the guard
				require.GreaterOrEqual(t, r.queue.count(name), max(again[name], 1))
				if again[name] == 0 {
					require.Greater(t, r.queue.count(name), 10)
				}
				require.Equal(t, 1+int(2*time.Minute/wait.BeatEvery), r.queue.count("beat"))
				r.queue.set(func() { r.queue.hangs = "" })
				r.stop(t)
			})
		})
	}
}
