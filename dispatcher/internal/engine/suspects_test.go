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
)

// kill has instances take n deliveries one after another, and die.
func (q *testQueue) kill(n int, victims ...string) {
	for _, by := range victims {
		q.take(by, n)
		_, err := q.still().Reap(context.Background(), "quiet", by)
		require.NoError(q.t, err)
	}
}

// crowd notes how many calls are under way, of which lanes.
type crowd struct {
	mu   sync.Mutex // guards the fields below
	now  map[d.Lane]int
	most int
	twin bool // two of one lane were
}

// during notes a call while it is answered.
func (c *crowd) during(answer func(context.Context, d.Call) d.Answer) func(context.Context, d.Call) d.Answer {
	c.now = map[d.Lane]int{}
	return func(ctx context.Context, call d.Call) d.Answer {
		c.mu.Lock()
		c.now[call.Lane]++
		c.most, c.twin = max(c.most, len(c.now)), c.twin || c.now[call.Lane] > 1
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.now[call.Lane]--; c.now[call.Lane] == 0 {
				delete(c.now, call.Lane)
			}
		}()
		return answer(ctx, call)
	}
}

func TestFewSuspectsOfDifferentLanesAreCalledAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		var c crowd
		r.sender.answer = c.during(takes(10 * time.Second))
		for n := range 50 {
			lane := d.Lane(fmt.Sprint("u_", min(n, 39))) // eleven of the last one
			r.queue.schedule(r.queue.entry(lane, message(fmt.Sprint("m", n))))
		}
		total := func() (n int) {
			for _, by := range []string{"one", "two"} {
				claimed, _, err := r.queue.still().ClaimIn(t.Context(), by, []int{0}, d.Claim{Wanted: 64, Free: 1024})
				require.NoError(t, err)
				n += len(claimed)
				_, err = r.queue.still().Reap(t.Context(), "quiet", by)
				require.NoError(t, err)
			}
			return n
		}()
		require.Greater(t, total, 80, "an unknown lane gives two at a time")
		r.start(t)
		pass(9 * time.Second)
		require.LessOrEqual(t, c.most, d.SuspectLanes+1, "beside one that is no suspect")
		require.Greater(t, c.most, d.SuspectLanes-1)
		r.queue.schedule(r.queue.entry("u_39", message("fresh")), r.queue.entry("u_50", message("other")))
		r.Note()
		pass(5 * time.Minute)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 52}, r.queue.verdicts())
		r.stop(t)
	})
}

func TestNoRequestOfASuspectBeginsBeforeThatIsNoted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.schedule(r.queue.entry("u_1", message("m")))
		r.queue.kill(1, "one", "two")
		r.queue.hook = func(name string) error {
			if strings.HasPrefix(name, "begin") {
				return d.ErrUnavailable
			}
			return nil
		}
		r.start(t)
		pass(2 * time.Second)
		require.Empty(t, r.sender.sent())
		require.Less(t, r.queue.count("begin"), 2*20+2, "it does not try all the time")
		require.Contains(t, r.log.String(), "stage=begin")
		r.queue.set(func() { r.queue.hook = nil })
		pass(30 * time.Second)
		require.Len(t, r.sender.sent(), 1)
		require.Contains(t, r.log.String(), "attempt of a suspect")
		require.Equal(t, 1, r.queue.verdicts()[d.Delivered])
		r.stop(t)
	})
}

func TestADeathCountsOnceTheRequestOfASuspectHasBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.schedule(r.queue.entry("u_1", message("m")))
		r.queue.kill(1, "one", "two", "three", "four")
		r.sender.answer = takes(10 * time.Second)
		r.start(t)
		pass(time.Second)
		_, err := r.queue.still().Reap(t.Context(), "quiet", r.queue.seen("claimed")[0].by)
		require.NoError(t, err)
		view, err := r.Message(t.Context(), "m")
		require.NoError(t, err)
		require.Equal(t, d.ReasonPoison, view.Deliveries[0].Reason)
		pass(time.Minute)
		r.stop(t)
	})
}
