package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// largeOne is a delivery whose body lies apart.
func largeOne(lane d.Lane, n, size int) d.Claimed {
	m := message(fmt.Sprintf("large_%s_%d", lane, n))
	m.Body = make([]byte, size)
	return d.Claimed{ID: d.DeliveryID{Lane: lane, Message: m.ID}, Message: m, Attempt: 1, Rung: 1, First: true}
}

func laneAt(i int) d.Lane { return d.Lane(fmt.Sprintf("u_%d", i)) }

// underWay counts the bytes of the calls that were not answered yet.
type underWay struct {
	fakeSender
	most, now int
}

func (u *underWay) send(wait time.Duration) func(context.Context, d.Call) d.Answer {
	take := takes(wait)
	return func(ctx context.Context, c d.Call) d.Answer {
		u.mu.Lock()
		u.now += len(c.Body)
		u.most = max(u.most, u.now)
		u.mu.Unlock()
		a := take(ctx, c)
		u.mu.Lock()
		u.now -= len(c.Body)
		u.mu.Unlock()
		return a
	}
}

func TestBodiesUnderWayStayWithinTheirBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &underWay{}
		r := newTestRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
			o.MaxBytes, s.answer = 1<<20, u.send(time.Second)
			for i := range 20 {
				q.put(largeOne(laneAt(i), i, 300<<10))
			}
		})
		r.start(t)
		require.Len(t, r.sender.sent(), 3, "a fourth does not fit")
		used, _ := r.Permits()
		require.Equal(t, 20, used, "the others wait with their leases")
		pass(10 * time.Second)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 20}, r.queue.verdicts())
		require.Equal(t, 3*300<<10, u.most)
		r.stop(t)
	})
}

func TestSmallBodiesAreSentBesideALargeOneOfTheirBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) {
			q.put(largeOne("u_0", 0, 100))
			q.put(largeOne("u_1", 1, 300<<10))
			q.put(largeOne("u_2", 2, 100))
		})
		r.start(t)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 3}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestABodyLargerThanTheBudgetGoesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
			o.MaxBytes, s.answer = 1<<20, takes(time.Second)
			q.put(largeOne("u_0", 0, 300<<10))
			q.put(largeOne("u_1", 1, 4<<20))
			q.put(largeOne("u_2", 2, 20<<10))
		})
		r.start(t)
		for i, size := range []int{300 << 10, 4 << 20, 20 << 10} {
			require.Len(t, r.sender.sent(), i+1)
			require.Len(t, r.sender.sent()[i].Body, size)
			pass(time.Second)
		}
		require.Equal(t, map[d.Verdict]int{d.Delivered: 3}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestALaneThatHangsLeavesHalfOfTheBytesToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
			o.MaxBytes = 1 << 20
			s.answer = func(ctx context.Context, c d.Call) d.Answer {
				if len(c.Body) == 200<<10 {
					return takes(time.Hour)(ctx, c)
				}
				return d.Answer{Status: 200}
			}
			for i := range 10 {
				q.put(largeOne("u_hung", i, 200<<10))
			}
			for i := range 10 {
				q.put(largeOne("u_good", i, 100<<10))
			}
		})
		r.start(t)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 10}, r.queue.verdicts())
		require.Len(t, r.sender.sent(), 12)
		r.cancel()
	})
}

func TestWhatCanNotWaitForBytesGoesBackForAMomentAndSmallOnesGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
			o.MaxInFlight, o.MaxBytes = 16, 1<<20
			s.answer = func(ctx context.Context, c d.Call) d.Answer {
				if len(c.Body) > 1<<10 {
					return takes(time.Hour)(ctx, c)
				}
				return d.Answer{Status: 200}
			}
			for i := range 8 {
				q.put(largeOne(laneAt(i), i, 1<<20))
			}
		})
		r.start(t)
		used, _ := r.Permits()
		require.Equal(t, 1+16/4, used, "one goes, a quarter of the permits waits")
		require.Len(t, r.queue.outcomes(), 3)
		for _, s := range r.queue.outcomes() {
			require.Equal(t, d.Back, s.Verdict)
			require.Equal(t, 50*time.Millisecond, s.Pause, "its lane is left alone: it would be claimed in a circle")
		}
		_, err := r.Publish(t.Context(), messages("small", 20))
		require.NoError(t, err)
		pass(time.Second)
		require.Equal(t, 20, r.queue.verdicts()[d.Delivered])
		r.cancel()
	})
}

func TestAPublishedBodyThatHasToWaitIsNotHeldInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
			o.MaxBytes, q.direct, s.answer = 1<<20, true, takes(time.Second)
		})
		r.start(t)
		var batch []*d.Message
		for _, m := range messages("m", 3) {
			m.Body = make([]byte, 700<<10)
			batch = append(batch, m)
		}
		out, err := r.Publish(t.Context(), batch)
		require.NoError(t, err)
		require.Equal(t, d.StatusInFlight, out[2].Deliveries[0].Status)
		synctest.Wait()
		require.Len(t, r.sender.sent(), 1)
		require.Zero(t, r.queue.count("body"), "the first had its body still")
		pass(5 * time.Second)
		require.Equal(t, 2, r.queue.count("body"), "the others were read again")
		require.Equal(t, map[d.Verdict]int{d.Delivered: 3}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestADeliveryWhoseBodyIsGoneDiesAndIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := largeOne("u_0", 0, 1<<20)
		r := newTestRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
			q.bodiless = true
			q.put(one)
		})
		r.start(t)
		require.Len(t, r.queue.outcomes(), 1)
		require.Equal(t, d.Dead, r.queue.outcomes()[0].Verdict)
		require.Equal(t, d.ReasonPoison, r.queue.outcomes()[0].Reason)
		require.Contains(t, r.log.String(), "body missing")
		require.Contains(t, r.log.String(), "delivery dead")
		require.Empty(t, r.sender.sent())
		r.stop(t)
	})
}

func TestADeliveryThatEndedWhileItsBodyWasReadIsForgottenSilently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := largeOne("u_0", 0, 1<<20)
		r := newTestRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
			q.bodiless = true
			q.put(one)
			q.hook = func(name string) error {
				if name == "body" {
					q.fence("here")
					q.take("other", 1)
					settled := q.still().Settle(context.Background(), "other", []d.Settlement{{ID: one.ID, Verdict: d.Delivered, Attempt: d.Attempt{Number: 1, Verdict: d.Delivered}}})
					return settled[0].Err
				}
				return nil
			}
		})
		r.start(t)
		require.Empty(t, r.queue.verdicts())
		require.Equal(t, d.Back, r.queue.given[0].Verdict, "it is not this instance's any more")
		require.NotContains(t, r.log.String(), "delivery dead")
		require.NotContains(t, r.log.String(), "body missing")
		r.stop(t)
	})
}

func TestAClaimThatWasNotAnsweredIsRepeatedForHalfAsMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []int
		r := newTestRig(t, func(o *engine.Options, q *testQueue, s *fakeSender) {
			q.fill(64)
			q.hook = func(name string) error {
				if name != "claim" {
					return nil
				}
				calls := q.seen("claim")
				n := calls[len(calls)-1].n
				asked = append(asked, n)
				if n > 10 { // more does not come through in time
					return fmt.Errorf("claim: %w", d.ErrUnavailable)
				}
				return nil
			}
		})
		r.start(t)
		pass(time.Minute)
		require.Equal(t, []int{64, 32, 16, 8}, asked[:4])
		require.Equal(t, 16, asked[4], "and grows back")
		require.Equal(t, map[d.Verdict]int{d.Delivered: 64}, r.queue.verdicts())
		r.stop(t)
	})
}
