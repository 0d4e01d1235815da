package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// dying is a rig whose deliveries die at once.
func dying(t *testing.T) *rig {
	t.Helper()
	r := newTestRig(t, nil)
	r.sender.answer = func(context.Context, d.Call) d.Answer { return d.Answer{Status: 410} }
	return r
}

func TestManyDeathsOfALaneAreOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := dying(t)
		r.start(t)
		lines := func(text string) int { return strings.Count(r.log.String(), text) }
		_, err := r.Publish(t.Context(), messages("m", 30))
		require.NoError(t, err)
		pass(time.Second)
		require.Equal(t, map[d.Verdict]int{d.Dead: 30}, r.queue.verdicts())
		require.Equal(t, 8, lines(`msg="delivery dead"`))
		require.Zero(t, lines("deliveries dead"), "what dies within the minute is counted first")
		other := message("other")
		other.URL = "https://other.example/"
		_, err = r.Publish(t.Context(), []*d.Message{other})
		require.NoError(t, err)
		pass(time.Second)
		require.Equal(t, 9, lines(`msg="delivery dead"`), "another lane's first has a line of its own")
		pass(time.Minute)
		require.Equal(t, 1, lines("deliveries dead"))
		require.Equal(t, 1, lines("reason=gone deliveries=22"))
		require.Equal(t, 10, strings.Count(r.log.String()[strings.Index(r.log.String(), "delivery_ids="):], ":m"))

		_, err = r.Publish(t.Context(), messages("n", 9))
		require.NoError(t, err)
		pass(time.Second)
		require.Equal(t, 17, lines(`msg="delivery dead"`), "another minute begins anew")
		require.Equal(t, 1, lines("deliveries dead"))
		r.stop(t)
		require.Equal(t, 2, lines("deliveries dead"), "what was not told is told at the end")
		require.Equal(t, 1, lines("reason=gone deliveries=1"))
		pass(time.Hour)
		require.Equal(t, 2, lines("deliveries dead"), "once")
	})
}

func TestDeathsOfVeryManyLanesAreCountedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lanes = 1024
		r := dying(t)
		r.start(t)
		batch := messages("m", lanes+50)
		for i, m := range batch {
			m.URL = fmt.Sprintf("https://h%d.example/", i)
		}
		_, err := r.Publish(t.Context(), batch)
		require.NoError(t, err)
		pass(time.Minute + time.Second)
		require.Equal(t, lanes, strings.Count(r.log.String(), `msg="delivery dead"`))
		require.Contains(t, r.log.String(), `lane="" reason=gone deliveries=50`)
		more := message("more")
		_, err = r.Publish(t.Context(), []*d.Message{more})
		require.NoError(t, err)
		pass(time.Second)
		require.Equal(t, lanes+1, strings.Count(r.log.String(), `msg="delivery dead"`), "those before are forgotten")
		r.stop(t)
	})
}

func TestWhatDiesWhenItIsPublishedIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, disabled)
		for i := range 10 {
			r.publish(t, to(view.ID, fmt.Sprint("m", i)))
		}
		require.Equal(t, 8, strings.Count(r.log.String(), `msg="delivery dead"`))
		r.stop(t)
		require.Contains(t, r.log.String(), "reason=disabled deliveries=2")
	})
}

// What kills its holders dies as the third is taken over from: the instance that
// is told of it logs and counts it.
func TestWhatDiesWithItsHolderIsLoggedAndCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &tookOver{}
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Observer = seen })
		one := claimed(message("one"))
		r.queue.lease("first", one)
		for _, next := range []string{"second", "gone"} {
			r.queue.fence(map[string]string{"second": "first", "gone": "second"}[next])
			r.queue.take(next, 1)
		}
		leases, err := r.queue.still().Leases(t.Context(), "gone")
		require.NoError(t, err)
		begun, err := r.queue.still().Begin(t.Context(), "gone", leases[0], false)
		require.NoError(t, err)
		require.True(t, begun)
		r.queue.other("gone", 7)
		r.start(t)
		pass(wait.DeadReadings * wait.BeatEvery)
		require.Equal(t, 1, r.queue.count("reap gone"))
		require.Contains(t, r.log.String(), `msg="delivery dead" delivery_id=u_0:one reason=poison`)
		require.Equal(t, []d.Death{{ID: one.ID, Reason: d.ReasonPoison, Attempts: 3}}, seen.deaths())
		r.stop(t)
	})
}

// What an attempt asks for is not what becomes of its delivery: that says the
// answer of the queue, and where it is lost the next one.
func TestADeathIsToldAsTheQueueAnsweredIt(t *testing.T) {
	t.Parallel()
	id := d.DeliveryID{Lane: "u_0", Message: "filled_0"}
	reported := []d.Death{{ID: id, Reason: d.ReasonGone, Attempts: 1}}
	cancel := func(q *testQueue) {
		_, err := q.still().Cancel(context.Background(), "quiet", []d.DeliveryID{id})
		require.NoError(t, err)
	}
	takeAway := func(q *testQueue) {
		q.fence("here")
		q.take("other", 1)
	}
	for name, c := range map[string]struct {
		set  func(q *testQueue)
		want []d.Death
	}{
		"as asked":                   {func(*testQueue) {}, reported},
		"cancelled meanwhile":        {cancel, nil},
		"the answer is lost":         {func(q *testQueue) { q.set(func() { q.after = once("settle", d.ErrUnavailable) }) }, []d.Death{{ID: id, Reason: d.ReasonGone, Attempts: 1}}},
		"lost, and cancelled before": {func(q *testQueue) { cancel(q); q.set(func() { q.after = once("settle", d.ErrUnavailable) }) }, nil},
		"lost, and another has it":   {func(q *testQueue) { takeAway(q); q.set(func() { q.hook = once("settle", d.ErrUnavailable) }) }, nil},
		"the call is not made":       {func(q *testQueue) { q.set(func() { q.hook = once("settle", d.ErrUnavailable) }) }, reported},
		"another has it by then":     {takeAway, nil},
		"refused, and then recorded": {func(q *testQueue) { q.set(func() { q.hook = once("settle", errBad) }) }, reported},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &tookOver{}
				r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Observer = seen })
				meanwhile := sync.OnceFunc(func() { c.set(r.queue) })
				r.sender.answer = func(context.Context, d.Call) d.Answer {
					meanwhile()
					return d.Answer{Status: 410}
				}
				r.queue.fill(1)
				r.start(t)
				pass(time.Minute)
				require.Equal(t, c.want, seen.deaths())
				require.Equal(t, len(c.want), strings.Count(r.log.String(), `msg="delivery dead"`))
				r.stop(t)
			})
		})
	}
}

func TestWhatDiesSinceTheOneBeforeItWasCancelledIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &tookOver{}
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Observer = seen })
		r.start(t)
		batch := messages("m", 2)
		batch[0].Delay = time.Hour
		batch[0].OrderingKey, batch[1].OrderingKey = "k", "k"
		out, err := r.Publish(t.Context(), batch)
		require.NoError(t, err)
		lane := out[0].Deliveries[0].ID.Lane
		_, err = r.queue.still().Limit(t.Context(), "quiet", lane, d.LaneLimits{Mode: d.LaneDisabled}, false)
		require.NoError(t, err)
		_, err = r.Cancel(t.Context(), batch[0].ID, "")
		require.NoError(t, err)
		require.Equal(t, []d.Death{{ID: d.DeliveryID{Lane: lane, Message: batch[1].ID}, Reason: d.ReasonDisabled}}, seen.deaths())
		require.Contains(t, r.log.String(), `msg="delivery dead"`)
		r.stop(t)
	})
}
