package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

func TestManyDeadWhoseTakeoverHangsDoNotStopTheHeart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		for i := range 5 {
			r.queue.other(fmt.Sprint("gone", i), 7)
		}
		r.queue.hook = func(name string) error {
			if strings.HasPrefix(name, "reap") {
				time.Sleep(4 * time.Second)
				return d.ErrUnavailable
			}
			return nil
		}
		r.start(t)
		pass(time.Minute)
		require.Equal(t, 31, r.queue.count("beat"))
		r.queue.set(func() { r.queue.hook = nil })
		pass(10 * time.Second)
		for i := range 5 {
			require.Contains(t, r.log.String(), fmt.Sprint("instance=gone", i), "which may be repeated")
		}
		r.stop(t)
	})
}

func TestATakeoverOfWhichAPartFailsIsCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &tookOver{}
		r := newTestRig(t, func(o *engine.Options, q *testQueue, _ *fakeSender) { q.partitions, o.Observer = 3, seen })
		r.queue.other("gone", 7)
		for _, lane := range lanesOfThree {
			c := claimed(message("m"))
			c.ID.Lane = lane
			r.queue.lease("gone", c)
		}
		r.queue.cutOff(1)
		r.start(t)
		pass(5 * wait.BeatEvery)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 2}, r.queue.verdicts())
		require.True(t, r.queue.isThere("gone"), "or nobody would ever look for the rest")
		require.Equal(t, []int{2}, seen.list())
		r.queue.cutOff()
		pass(wait.BeatEvery)
		require.Equal(t, map[d.Verdict]int{d.Delivered: 3}, r.queue.verdicts())
		require.Equal(t, []int{2, 1}, seen.list())
		r.stop(t)
	})
}

func TestAChangeOfAnEndpointIsFinishedWithTheTakeoverOfWhoDiedInIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t)
		pass(5 * wait.BeatEvery)
		r.store.listen("here", nil)
		_, err := r.store.DeleteEndpoint(t.Context(), view.ID)
		require.NoError(t, err)
		r.queue.other("gone", 7)
		pass(5 * wait.BeatEvery) // much less than the time between two comparisons without a cause
		require.Equal(t, d.LaneDeleted, r.queue.limitsOf(view.Lane()).Mode)
		r.stop(t)
	})
}

// A lane that waits for nothing is not claimed, so no claim finds out that its limits are gone.
func TestALaneWhoseLimitsTheStoreLostGetsThemAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, func(e *d.Endpoint) { e.MaxInFlight = 7 })
		pass(5 * wait.BeatEvery)
		r.queue.HDel("{"+project+":0}"+keys.Limits, string(view.Lane()))
		fails := true
		r.store.set(func() {
			r.store.hook = func(call string) error {
				if call == "list endpoints" && fails {
					fails = false
					return d.ErrUnavailable
				}
				return nil
			}
		})
		r.GaveUp()
		pass(5 * wait.BeatEvery)
		require.Equal(t, view.Limits(), r.queue.limitsOf(view.Lane()))
		require.False(t, fails)
		pass(5 * time.Minute)
		require.Equal(t, 2, r.store.count("list endpoints"), "not after each poll")
		r.stop(t)
	})
}

// tookOver notes takeovers.
type tookOver struct {
	mu   sync.Mutex // guards the fields below
	n    []int
	died []d.Death
}

func (o *tookOver) Attempted(d.Attempted) {}
func (o *tookOver) Published(d.Published) {}
func (o *tookOver) Died(death d.Death) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.died = append(o.died, death)
}

func (o *tookOver) deaths() []d.Death {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.died)
}

func (o *tookOver) TookOver(deliveries int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n = append(o.n, deliveries)
}

func (o *tookOver) list() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.n)
}

func TestABacklogThatTakesLongIsNotTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 750
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, s *fakeSender) {
			o.MaxInFlight, s.forget, s.answer = 256, true, takes(14*time.Second)
		})
		other := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) { o.Instance, o.MaxInFlight = "other", 0 })
		other.instance = newTestInstance(t, connect(t, r.queue, 1024), other.sender, func() engine.Options {
			o := newTestOptions(t, other.log)
			o.Instance, o.MaxInFlight = "other", 0
			return o
		}())
		r.queue.fill(n)
		r.start(t)
		other.start(t)
		pass(10 * time.Minute)
		require.Zero(t, r.queue.count("reap here"), "a lease lasts as long as its holder lives")
		requireEachOnce(t, r.queue, n)
		r.stop(t)
		other.stop(t)
	})
}
