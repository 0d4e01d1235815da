package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Some partitions fail, and the others go on.

// lanes of which each lies in another of three partitions.
var lanesOfThree = []d.Lane{"u_0", "u_1", "u_3"}

func newThreeRig(t testing.TB) *rig {
	return newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.partitions = 3 })
}

// asked counts the calls of a name that asked for a partition.
func (q *testQueue) askedFor(name string, partition int) (n int) {
	for _, c := range q.seen(name) {
		if slices.Contains(c.asked, partition) {
			n++
		}
	}
	return n
}

func TestAPartitionThatFailsSlowsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newThreeRig(t)
		for i := range 30 {
			for _, lane := range lanesOfThree {
				r.queue.later(lane, fmt.Sprint("m", i), time.Duration(i+1)*10*time.Second)
			}
		}
		r.queue.cutOff(1)
		r.queue.fillLane("u_1", 3)
		r.start(t)
		pass(moment)
		for i := range 30 {
			pass(10*time.Second - 2*moment)
			require.Len(t, r.sender.sent(), 2*i)
			pass(2 * moment)
			require.Len(t, r.sender.sent(), 2*i+2, "to the moment")
			require.Len(t, r.queue.outcomes(), 2*i+2, "and recorded")
		}
		for _, name := range []string{"move", "claim", "peek"} {
			require.Less(t, r.queue.askedFor(name, 1), 2*300, "%s waits between", name)
		}
		require.Greater(t, r.queue.askedFor("peek", 1), 100, "though it goes on asking")
		r.queue.cutOff()
		pass(outage.PauseMost)
		require.Len(t, r.sender.sent(), 93, "all of it, as soon as it is back")
		requireEachOnce(t, r.queue, 93)
		pass(2 * outage.Calm)
		require.Equal(t, 1, strings.Count(r.log.String(), `msg="store lost"`))
		require.Contains(t, r.log.String(), "partitions=1 of=3")
		require.Equal(t, 1, strings.Count(r.log.String(), "store back"))
		require.Less(t, strings.Index(r.log.String(), "store lost"), strings.Index(r.log.String(), "store back"))
		r.stop(t)
	})
}

func TestAPartitionThatCanOnlyBeReadIsLeftAloneAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newThreeRig(t)
		r.queue.reads = true
		r.queue.cutOff(1)
		r.queue.fillLane("u_1", 3)
		r.queue.later("u_1", "m", time.Second)
		r.start(t)
		pass(5 * time.Minute)
		for _, name := range []string{"move", "claim"} {
			require.Less(t, r.queue.askedFor(name, 1), 320, name)
			require.Positive(t, r.queue.askedFor(name, 1), name) // the two take turns, at random
		}
		r.queue.cutOff()
		pass(outage.PauseMost)
		requireEachOnce(t, r.queue, 4)
		r.stop(t)
	})
}

func TestWhenAllPartitionsFailTheStoreIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newThreeRig(t)
		r.start(t)
		pass(time.Minute)
		r.queue.cutOff(0, 1, 2)
		r.queue.set(func() { r.queue.hook = failing("beat", d.ErrUnavailable) })
		for _, lane := range lanesOfThree {
			r.queue.later(lane, "m", 0)
		}
		r.queue.ears.OnGap()
		pass(time.Minute)
		require.Contains(t, r.log.String(), "partitions=3 of=3")
		require.Less(t, r.queue.count("peek"), 150)
		r.queue.cutOff()
		r.queue.set(func() { r.queue.hook = nil })
		pass(outage.PauseMost + wait.BeatEvery)
		requireEachOnce(t, r.queue, 3)
		pass(outage.Calm)
		require.Equal(t, 1, strings.Count(r.log.String(), `msg="store lost"`))
		require.Equal(t, 1, strings.Count(r.log.String(), "store back"))
		r.stop(t)
	})
}

func TestOutcomesOfAPartitionThatFailsWaitApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newThreeRig(t)
		r.sender.answer = takes(time.Second)
		r.queue.fillLane("u_1", 300)
		r.start(t)
		r.queue.cutOff(1)
		pass(time.Minute)
		require.Equal(t, 300, r.Waiting())
		for i := range 20 {
			r.queue.fillLane("u_3", 10)
			r.queue.ears.OnGap()
			pass(engine.PollLeast + time.Second)
			require.Len(t, r.queue.outcomes(), 10*(i+1), "recorded in the moment in which they are there")
		}
		calls := r.queue.count("settle")
		pass(time.Minute)
		require.Less(t, r.queue.count("settle"), calls+200)
		r.queue.cutOff()
		pass(outage.PauseMost)
		requireEachOnce(t, r.queue, 500)
		require.Zero(t, r.Leases())
		require.Zero(t, r.Waiting())
		r.stop(t)
	})
}

func TestOutcomesOfOneDeliveryAreRecordedInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newThreeRig(t)
		r.start(t)
		r.queue.cutOff(1)
		want := map[d.Lane][]int{}
		for i := range 200 {
			for n, lane := range lanesOfThree {
				r.Settle(d.Settlement{ID: d.DeliveryID{Lane: lane, Message: "m"}, Verdict: d.Retry, Attempt: d.Attempt{Number: i}})
				want[lane] = append(want[lane], i)
				if i%50 == 10*n { // it fails and works again while some are under way
					pass(700 * time.Millisecond)
					r.queue.cutOff((i + n) % 3)
				}
			}
		}
		pass(time.Minute)
		r.queue.cutOff()
		pass(time.Minute)
		require.Zero(t, r.Waiting())
		got := map[d.Lane][]int{}
		for _, s := range r.queue.given {
			got[s.ID.Lane] = append(got[s.ID.Lane], s.Attempt.Number)
		}
		require.Equal(t, want, got)
		r.stop(t)
	})
}

func TestOutcomesThatWaitApartCountAsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newThreeRig(t)
		most := 4 * 1024
		r.queue.direct = true
		r.queue.refuse = func(id d.DeliveryID, _ int) bool { return id.Lane == "u_1" }
		r.start(t)
		for n := range most + 1 {
			r.Settle(d.Settlement{ID: d.DeliveryID{Lane: "u_1", Message: fmt.Sprint("m", n)}, Verdict: d.Back})
		}
		_, err := r.Publish(t.Context(), messages("direct", 3))
		require.NoError(t, err)
		pass(time.Minute)
		require.Empty(t, r.sender.sent(), "neither claimed nor leased directly")
		require.Zero(t, r.queue.count("claim"))
		require.Zero(t, r.queue.seen("schedule")[0].leased)
		require.Equal(t, most+1, r.Waiting())
		r.queue.set(func() { r.queue.refuse = nil })
		pass(5 * time.Second)
		require.Len(t, r.sender.sent(), 3)
		r.stop(t)
	})
}

func TestAnOutcomeThatIsRefusedHoldsUpNoOthers(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		bad      func(s d.Settlement) bool
		recorded int
	}{
		"for what only people read": {func(s d.Settlement) bool { return len(s.Attempt.Excerpt) > 0 }, 300},
		"whatever it says":          {func(d.Settlement) bool { return true }, 299},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				r.queue.fill(300)
				one := d.DeliveryID{Lane: "u_0", Message: "filled_77"}
				r.queue.bad = func(s d.Settlement) bool { return s.ID == one && c.bad(s) }
				var good atomic.Bool
				r.sender.answer = func(context.Context, d.Call) d.Answer {
					if good.Load() {
						return d.Answer{Status: 200}
					}
					return d.Answer{Status: 500, Body: []byte("no")}
				}
				r.start(t)
				pass(14 * time.Second)
				requireRecorded(t, r, c.recorded)
				if c.recorded == 300 {
					require.NotContains(t, r.log.String(), "outcome refused")
					require.Equal(t, 1, r.queue.settled[one][0].Attempt.Number)
					require.Equal(t, 500, r.queue.settled[one][0].Attempt.Status)
					require.Equal(t, 15*time.Second, r.queue.settled[one][0].Wait, "the rung is as it was")
					require.Zero(t, r.Leases())
				} else {
					require.Equal(t, 1, strings.Count(r.log.String(), "outcome refused"))
					require.Contains(t, r.log.String(), one.String())
					require.Equal(t, 1, r.Leases(), "and not handed back: it would be attempted again without end")
				}
				require.NotContains(t, r.log.String(), "store lost", "it did answer")
				settles := r.queue.count("settle")
				require.Less(t, settles, 350)
				good.Store(true)
				pass(2 * time.Minute)
				require.Zero(t, r.Waiting())
				require.Less(t, r.queue.count("settle"), settles+310, "nor is it given again without end")
				times := 0
				for _, s := range r.sender.sent() {
					if s.Header.Get("Webhook-Id") == one.Message {
						times++
					}
				}
				require.Equal(t, 1+c.recorded-299, times)
				r.stop(t)
			})
		})
	}
}

func requireRecorded(t *testing.T, r *rig, n int) {
	t.Helper()
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	require.Len(t, r.queue.settled, n)
}

func TestWhatAPartitionHadToTellIsAskedForWhenItIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newThreeRig(t)
		r.queue.cutOff(1)
		r.queue.later("u_1", "m", 30*time.Second)
		r.start(t)
		pass(10 * time.Second)
		r.queue.cutOff()
		pass(20*time.Second - moment)
		require.Empty(t, r.sender.sent())
		pass(2 * moment)
		require.Len(t, r.sender.sent(), 1, "to the moment, though nobody told of it")
		r.stop(t)
	})
}

func TestAnAnswerThatWasLostIsLookedFor(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"the whole call": d.ErrUnavailable, "a partition": conn.FailedPartition(0, 1, d.ErrUnavailable),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, nil)
				r.start(t)
				pass(10 * time.Second)
				lost := false
				r.queue.set(func() {
					r.queue.after = func(call string) error {
						if call != "schedule" || lost {
							return nil
						}
						lost = true
						return err
					}
				})
				out, _ := r.Publish(t.Context(), messages("m", 1))
				require.ErrorIs(t, out[0].Err, d.ErrUnavailable)
				pass(2 * engine.PollLeast)
				require.Len(t, r.sender.sent(), 1, "and not only when the guard comes round")
				r.stop(t)
			})
		})
	}
}

func TestAPublishToPartitionsThatAnswerIsAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newThreeRig(t)
		r.queue.cutOff(1)
		r.start(t)
		batch := make([]*d.Message, 30)
		bad := 0
		for i := range batch {
			batch[i] = message(fmt.Sprint("m", i))
			batch[i].URL = fmt.Sprintf("https://shop%d.example/", i)
		}
		out, err := r.Publish(t.Context(), batch)
		require.NoError(t, err)
		for i, p := range out {
			u, err := d.ParseURL(batch[i].URL)
			require.NoError(t, err)
			if r.queue.partition(d.URLLane(u, "")) == 1 {
				bad++
				require.ErrorIs(t, p.Err, d.ErrUnavailable)
			} else {
				require.NoError(t, p.Err)
			}
		}
		require.NotZero(t, bad)
		synctest.Wait()
		require.Len(t, r.sender.sent(), 30-bad)
		r.stop(t)
	})
}

func TestTheTrimmerGoesOnWithoutAPartitionThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, q *testQueue, _ *fakeSender) { q.partitions, o.PollEvery = 3, 24*time.Hour })
		r.start(t)
		more := func() {
			r.queue.fillLane("u_3", engine.TrimAfter)
			r.queue.ears.OnGap()
			pass(2 * engine.PollLeast)
		}
		r.queue.fillLane("u_1", engine.TrimAfter-1)
		r.queue.ears.OnGap()
		pass(2 * engine.PollLeast)
		require.Zero(t, r.queue.count("trim"))
		r.queue.cutOff(1)
		r.queue.set(func() { r.queue.more = 5 })
		more()
		require.LessOrEqual(t, r.queue.askedFor("trim", 1), 2, "once in each turn")
		require.GreaterOrEqual(t, r.queue.askedFor("trim", 2), 6, "the others' turns go on")
		r.queue.cutOff()
		r.queue.set(func() { r.queue.calls = nil })
		more()
		require.Positive(t, r.queue.askedFor("trim", 1), "what was left out has its turn")
		r.stop(t)
	})
}

func TestAClaimAsksAsManyPartitionsAsItHasPermitsForAndTheOthersNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, q *testQueue, _ *fakeSender) { q.partitions, o.MaxInFlight = 3, 64 })
		for _, lane := range lanesOfThree {
			r.queue.fillLane(lane, 64)
		}
		r.start(t)
		synctest.Wait()
		requireEachOnce(t, r.queue, 3*64)
		asked := map[int]bool{}
		for i, c := range r.queue.seen("claim")[:3] {
			require.LessOrEqual(t, len(c.asked)*32, max(c.n, 32), "claim %d asks for few deliveries in many partitions", i)
			for _, n := range c.asked {
				asked[n] = true
			}
		}
		require.Len(t, asked, 3, "each has its turn")
		r.stop(t)
	})
}
