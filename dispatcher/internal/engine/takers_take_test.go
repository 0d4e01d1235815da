package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
)

const half = 15 * time.Second

func TestATakeAnswersAtOnceWhatThereIs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		require.Empty(t, q.call(t, d.TakerAsk{}).answer(t))
		q.put(lane, "a", "b", "c")
		c := q.call(t, d.TakerAsk{Most: 2, Wait: half})
		require.Equal(t, []string{"a", "b"}, c.answer(t))
		require.Zero(t, c.took)
		g := c.given[0]
		require.Equal(t, "a", g.Header.Get("webhook-id"))
		require.Equal(t, time.Now().Add(30*time.Second), g.Until)
		require.Regexp(t, `^3\.[A-Z2-7]{26}\.[0-9a-f]{10}$`, g.Lease)
		require.Equal(t, "me", q.takes[1].Owner)
		require.NotEqual(t, q.takes[0].Token, q.takes[1].Token)
	})
}

func TestAHintWakesOneThatWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		first, second := q.call(t, d.TakerAsk{Wait: half}), q.call(t, d.TakerAsk{Wait: half})
		other := q.call(t, d.TakerAsk{Lane: "q_other", Wait: half})
		time.Sleep(time.Second)
		q.put(lane, "a")
		require.Equal(t, []string{"a"}, first.answer(t))
		require.Equal(t, time.Second, first.took)
		require.True(t, second.waits())
		require.Equal(t, 4, q.asked(), "the others did not ask")
		q.put(lane, "b")
		require.Equal(t, []string{"b"}, second.answer(t))
		require.Empty(t, other.answer(t))
		require.Equal(t, half, other.took)
		require.Equal(t, 6, q.asked(), "and once more before it is told that there is nothing")
	})
}

func TestThoseThatWaitCostNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		var calls []*takerCall
		for range 200 {
			calls = append(calls, q.call(t, d.TakerAsk{Wait: half}))
		}
		time.Sleep(half - time.Second)
		synctest.Wait()
		require.Equal(t, 200, q.asked())
		for _, c := range calls {
			require.Empty(t, c.answer(t))
		}
		require.Equal(t, 400, q.asked())
	})
}

func TestWhoLeavesSomeBehindWakesTheNext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		var calls []*takerCall
		for range 3 {
			calls = append(calls, q.call(t, d.TakerAsk{Most: 2, Wait: half}))
		}
		q.put(lane, "a", "b", "c", "d", "e")
		require.Equal(t, []string{"a", "b"}, calls[0].answer(t))
		require.Equal(t, []string{"c", "d"}, calls[1].answer(t))
		require.Equal(t, []string{"e"}, calls[2].answer(t))
		require.Equal(t, 6, q.asked())

		c := q.call(t, d.TakerAsk{Wait: half})
		q.set(func() { q.ready[lane] = []string{"x", "y"} })
		require.Equal(t, []string{"x"}, q.call(t, d.TakerAsk{}).answer(t))
		require.Equal(t, []string{"y"}, c.answer(t), "one that does not wait passes it on too")
	})
}

func TestACallerThatIsGonePassesItsTurnOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		first, second := q.call(t, d.TakerAsk{Wait: half}), q.call(t, d.TakerAsk{Wait: half})
		q.set(func() { q.ready[lane] = []string{"a"} })
		first.cancel()
		q.t.OnTakeable([]d.Lane{lane}) // both at once
		<-first.over
		require.ErrorIs(t, first.err, context.Canceled)
		require.Equal(t, []string{"a"}, second.answer(t))
	})
}

func TestWhatACallerTookThatIsGoneGoesBack(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"one that waits": half, "one that does not": 0} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(q *fakeQueue, _ func()) {
				ctx, cancel := context.WithCancel(context.Background())
				q.set(func() { q.ready[lane], q.taking = []string{"a", "b"}, cancel })
				_, err := q.t.Take(ctx, d.TakerAsk{Lane: lane, Owner: "me", Most: 2, For: time.Second, Wait: wait})
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, []string{"a", "b"}, q.ready[lane])
				require.Empty(t, q.taken)
			})
		})
	}
}

func TestAtTheStopThoseThatWaitAreAnswered(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, stop func()) {
		c := q.call(t, d.TakerAsk{Wait: half})
		stop()
		require.Empty(t, c.answer(t))
		require.Zero(t, c.took)
		late := q.call(t, d.TakerAsk{Wait: half})
		require.Empty(t, late.answer(t))
		require.Equal(t, time.Second, late.took, "a caller that repeats its call at once makes few calls")
		q.set(func() { q.ready[lane] = []string{"a"} })
		require.Equal(t, []string{"a"}, q.call(t, d.TakerAsk{Wait: half}).answer(t))
	})
}

func TestWhereSomethingMayHaveBeenMissedOneOfEachLaneAsks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		var calls []*takerCall
		for i := range 40 {
			for range 2 {
				calls = append(calls, q.call(t, d.TakerAsk{Lane: d.Lane(rune('a' + i)), Wait: half}))
			}
		}
		require.Equal(t, 80, q.asked())
		q.t.OnTakeable([]d.Lane{d.AllLanes})
		synctest.Wait()
		require.Less(t, q.asked(), 120, "not all at once")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 120, q.asked())
		for _, c := range calls {
			require.Empty(t, c.answer(t))
		}
	})
}

func TestWhereNothingIsToldAllWaitForOneLookASecond(t *testing.T) {
	t.Parallel()
	bubble(t, true, func(q *fakeQueue, _ func()) {
		time.Sleep(half)
		synctest.Wait()
		require.Zero(t, q.looks, "nobody waits")
		a, b := q.call(t, d.TakerAsk{Wait: half}), q.call(t, d.TakerAsk{Lane: "q_other", Wait: half})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, 10, q.looks)
		require.Equal(t, 2, q.asked())
		q.set(func() { q.ready[lane] = []string{"a"} })
		require.Equal(t, []string{"a"}, a.answer(t))
		require.LessOrEqual(t, a.took, 12*time.Second)
		require.Empty(t, b.answer(t))
	})
}

func TestWhatCanNotBeGivenOutIsNoAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		q.set(func() { q.unfit["a"] = 2 })
		q.put(lane, "a", "b")
		c := q.call(t, d.TakerAsk{Wait: half})
		require.Equal(t, []string{"a"}, c.answer(t))
		require.Equal(t, []string{"a", "a"}, q.backs)
		require.Less(t, c.took, time.Second)
		require.Len(t, q.taken, 1)
		q.put(lane, "unsignable")
		require.Equal(t, []string{"b"}, q.call(t, d.TakerAsk{Most: 9}).answer(t))
		require.Equal(t, []string{"unsignable"}, q.ready[lane])
	})
}

func TestAFailedTakeIsToldAndPassesItsTurnOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		first, second := q.call(t, d.TakerAsk{Wait: half}), q.call(t, d.TakerAsk{Wait: half})
		q.set(func() { q.err = d.ErrUnavailable })
		q.put(lane, "a")
		<-first.over
		require.ErrorIs(t, first.err, d.ErrUnavailable)
		<-second.over
		require.ErrorIs(t, second.err, d.ErrUnavailable)
	})
}

var errLost = &d.Emptied{Partitions: []int{0}}

// That there is nothing is not known of a lane whose data the store lost, however the wait ends.
func TestNobodyIsToldThatALostLaneIsEmpty(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, stop func()) {
		q.put(lane, "a")
		q.set(func() { q.lost = errLost })
		require.Equal(t, []string{"a"}, q.call(t, d.TakerAsk{}).answer(t), "what is there is given out")
		for _, wait := range []time.Duration{0, half} {
			c := q.call(t, d.TakerAsk{Wait: wait})
			<-c.over
			require.ErrorIs(t, c.err, errLost)
		}
		c := q.call(t, d.TakerAsk{Wait: half})
		synctest.Wait()
		stop()
		<-c.over
		require.ErrorIs(t, c.err, errLost)
	})
}

func TestThoseThatWaitLearnAtOnceThatTheirEndpointIsGone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(q *fakeQueue, _ func()) {
		one, two := q.call(t, d.TakerAsk{Lane: "ep_gone", Wait: half}), q.call(t, d.TakerAsk{Lane: "ep_gone", Wait: half})
		other := q.call(t, d.TakerAsk{Wait: half})
		require.True(t, one.waits() && two.waits() && other.waits())
		q.t.OnGone("ep_gone")
		q.t.OnGone("ep_gone") // each instance hears it from itself, and as others do
		for _, c := range []*takerCall{one, two} {
			<-c.over
			require.ErrorIs(t, c.err, d.ErrNoEndpoint)
			require.Zero(t, c.took)
		}
		require.True(t, other.waits())
		q.put(lane, "a")
		require.Equal(t, []string{"a"}, other.answer(t))
	})
}
