package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// Memory that is full.

func TestAFloodThatFindsNoRoomIsNotTrimmedForEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		r.queue.tight = true
		r.queue.hook = slow("schedule", time.Millisecond)
		r.start(t)
		for i := range 5000 {
			out, err := r.Publish(t.Context(), messages(fmt.Sprint("m", i), 1))
			require.NoError(t, err)
			require.ErrorIs(t, out[0].Err, d.ErrFull)
		}
		require.LessOrEqual(t, r.queue.count("trim"), 7)
		require.GreaterOrEqual(t, r.queue.count("trim"), 5)
		require.Equal(t, 1, strings.Count(r.log.String(), `msg="store full"`))
		require.NotContains(t, r.log.String(), "store lost", "it does answer")
		r.queue.set(func() { r.queue.old = 10 }) // some work has ended
		pass(time.Second)
		out, err := r.Publish(t.Context(), messages("late", 1))
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
		require.Equal(t, 1, strings.Count(r.log.String(), "store has room again"))
		r.stop(t)
	})
}

func TestThatFinishedWorkMadeRoomIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		r.queue.tight, r.queue.old = true, 1000
		r.start(t)
		for i := range 12 {
			out, err := r.Publish(t.Context(), messages(fmt.Sprint("m", i), 64))
			require.NoError(t, err)
			require.NoError(t, out[0].Err)
			pass(10 * time.Minute)
		}
		require.Equal(t, 2, strings.Count(r.log.String(), "finished deliveries forgotten to make room"))
		require.Contains(t, r.log.String(), "give the store more memory")
		r.stop(t)
	})
}

func TestWhatWasAcceptedGoesOnWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.queue.tight = true
		r.queue.other("gone", 7)
		r.queue.later("u_0", "due", 30*time.Second)
		c := claimed(message("held"))
		r.queue.lease("gone", c)
		r.queue.fill(10)
		r.start(t)
		for i := range 60 {
			out, err := r.Publish(t.Context(), messages(fmt.Sprint("m", i), 1))
			require.NoError(t, err)
			require.ErrorIs(t, out[0].Err, d.ErrFull)
			pass(time.Second)
		}
		requireEachOnce(t, r.queue, 12)
		r.stop(t)
	})
}

func TestRoomIsMadeWhereItIsMissing(t *testing.T) {
	t.Parallel()
	lane := func(url string) d.Lane {
		u, err := d.ParseURL(url)
		require.NoError(t, err)
		return d.URLLane(u, "")
	}
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, q *testQueue, _ *fakeSender) {
			o.MaxInFlight, q.partitions = 0, 3
		})
		r.start(t)
		r.queue.set(func() {
			r.queue.down = map[int]error{0: fmt.Errorf("OOM: %w", d.ErrFull)}
		})
		var batch []*d.Message
		bad := 0
		for i := range 30 {
			m := message(fmt.Sprint("m", i))
			m.URL = fmt.Sprintf("https://shop%d.example/", i)
			batch = append(batch, m)
		}
		out, err := r.Publish(t.Context(), batch)
		require.NoError(t, err)
		for i, p := range out {
			if r.queue.partition(lane(batch[i].URL)) == 0 {
				require.ErrorIs(t, p.Err, d.ErrFull)
				bad++
			} else {
				require.NoError(t, p.Err, "the others are taken")
			}
		}
		require.NotZero(t, bad)
		trims := r.queue.seen("trim")
		require.Len(t, trims, 1)
		require.Equal(t, []int{0, 1, 2}, trims[0].asked, "all share one memory")
		r.stop(t)
	})
}

func TestARoomMakerThatHangsHoldsUpPublishesForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		r.queue.tight, r.queue.hangs = true, "trim"
		r.start(t)
		began := time.Now()
		out, err := r.Publish(t.Context(), messages("m", 1))
		require.NoError(t, err)
		require.ErrorIs(t, out[0].Err, d.ErrFull)
		require.LessOrEqual(t, time.Since(began), time.Second)
		r.stop(t)
	})
}

func TestRoomMakersThatHangHoldUpPublishesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		r.queue.tight, r.queue.hangs = true, "trim"
		r.start(t)
		began := time.Now()
		var g errgroup.Group
		for k := range 4 {
			g.Go(func() error {
				out, err := r.Publish(t.Context(), messages(fmt.Sprint("m", k), 256))
				if err == nil && !errors.Is(out[0].Err, d.ErrFull) {
					err = fmt.Errorf("it was answered with %v", out[0].Err)
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.LessOrEqual(t, time.Since(began), time.Second)
		r.stop(t)
	})
}

func TestWorkThatIsForgottenBeforeItsAgeIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(o *engine.Options, _ *testQueue, _ *fakeSender) {
			o.Keep = d.Keep{Finished: 24 * time.Hour, FinishedMax: 100, Dead: 720 * time.Hour, DeadMax: 50}
		})
		r.start(t)
		ages := []time.Duration{0, 30 * time.Hour, 12 * time.Hour, 11 * time.Hour, 7 * time.Hour, 6 * time.Hour, 5 * time.Hour, 3 * time.Hour, 20 * time.Hour}
		reported := []int{0, 0, 1, 1, 1, 2, 2, 3, 3}
		for i, age := range ages {
			r.queue.set(func() { r.queue.cut.age = age })
			pass(time.Minute)
			require.Equal(t, reported[i], strings.Count(r.log.String(), "finished deliveries forgotten before their age"), age.String())
		}
		require.Contains(t, r.log.String(), "age_s=43200 asked_s=86400")
		require.Contains(t, r.log.String(), "raise RETENTION_MAX, or lower RETENTION")
		require.NotContains(t, r.log.String(), "dead deliveries forgotten")
		r.queue.set(func() { r.queue.cut.dead = 3 })
		pass(10 * time.Minute)
		require.Equal(t, 1, strings.Count(r.log.String(), "dead deliveries forgotten before their age"))
		require.Contains(t, r.log.String(), "raise DEAD_MAX, or lower DEAD_RETENTION")
		r.stop(t)
	})
}

func TestWhenMemoryIsFullFinishedWorkGoesFirst(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		full      int // entries refused before there is room
		trimFails bool
		want      []error
		calls     []int
	}{
		"room was made":          {full: 2, want: []error{nil, nil, nil}, calls: []int{3, 2}},
		"some of it was enough":  {full: 4, want: []error{d.ErrFull, nil, nil}, calls: []int{3, 3}},
		"it is full of new work": {full: 1000, want: []error{d.ErrFull, d.ErrFull, d.ErrFull}, calls: []int{3, 3}},
		"room can't be made":     {full: 1, trimFails: true, want: []error{d.ErrFull, nil, nil}, calls: []int{3}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.partitions = 3 })
				r.queue.full, r.queue.direct = c.full, true
				if c.trimFails {
					r.queue.hook = failing("trim", d.ErrUnavailable)
				}
				r.start(t)
				out, err := r.Publish(t.Context(), messages("m", 3))
				require.NoError(t, err)
				good := 0
				for i, p := range out {
					require.ErrorIs(t, p.Err, c.want[i])
					if p.Err == nil {
						require.Equal(t, d.Accepted, p.Result)
						require.Equal(t, fmt.Sprintf("m_%d", i), p.Deliveries[0].ID.Message)
						good++
					}
				}
				pass(0)
				require.Equal(t, c.calls, sizes(r.queue.seen("schedule")))
				trims := r.queue.seen("trim")
				require.Len(t, trims, 1)
				require.True(t, trims[0].room)
				require.Equal(t, 3, trims[0].n, "all partitions")
				require.Equal(t, 1024, r.FreePermits())
				require.Equal(t, good, r.queue.verdicts()[d.Delivered], "what was leased by either call is delivered")
				r.stop(t)
			})
		})
	}
}

func TestAFullQueueIsToldOfAlsoWhenTheWholeCallFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, acceptsOnly)
		r.queue.hook = failing("schedule", d.ErrFull)
		r.start(t)
		out, err := r.Publish(t.Context(), messages("m", 2))
		require.NoError(t, err)
		require.ErrorIs(t, out[0].Err, d.ErrFull)
		require.ErrorIs(t, out[1].Err, d.ErrFull)
		require.Equal(t, 2, r.queue.count("schedule"))
		r.stop(t)
	})
}
