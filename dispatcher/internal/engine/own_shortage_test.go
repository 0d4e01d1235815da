package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// exhausted answers as a host does that has no file descriptor left, while on.
func exhausted(on *atomic.Bool) func(context.Context, d.Call) d.Answer {
	return func(context.Context, d.Call) d.Answer {
		if !on.Load() {
			return d.Answer{Status: 200}
		}
		return d.Answer{Class: d.ClassInternal, Err: fmt.Errorf("%w: %w", d.ErrExhausted, syscall.EMFILE)}
	}
}

func TestOwnExhaustionCostsNoRungAndBlamesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Bool
		on.Store(true)
		r := newTestRig(t, func(_ *engine.Options, _ *testQueue, s *fakeSender) { s.answer = exhausted(&on) })
		r.queue.fill(10)
		r.start(t)
		pass(time.Minute)
		require.Equal(t, r.queue.verdicts()[d.Back], len(r.queue.outcomes()), "all go back, whatever became of others")
		for _, s := range r.queue.outcomes() {
			require.Zero(t, s.Blame)
			require.Zero(t, s.Attempt.Number)
		}
		require.EqualValues(t, len(r.queue.outcomes()), r.Exhausted())
		on.Store(false)
		pass(time.Second)
		require.Equal(t, 10, r.queue.verdicts()[d.Delivered])
		for _, s := range r.queue.outcomes() {
			if s.Verdict == d.Delivered {
				require.Equal(t, 1, s.Attempt.Number, "it is the first attempt that was made")
			}
		}
		r.stop(t)
	})
}

func TestOwnExhaustionPausesClaimsAndDoesNotSpin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Bool
		on.Store(true)
		r := newTestRig(t, func(_ *engine.Options, _ *testQueue, s *fakeSender) { s.answer = exhausted(&on) })
		r.queue.fill(10)
		r.start(t)
		pass(100 * time.Second)
		// Pauses of 50, 100, 200, 400 and 800 ms, then of a second.
		require.InDelta(t, 104, r.queue.count("claim"), 6)
		require.Equal(t, 2, strings.Count(r.log.String(), "no connection could be opened"), "at once, and once a minute")
		require.Contains(t, r.log.String(), "ulimit -n")

		before := r.queue.count("claim")
		_, err := r.Publish(t.Context(), messages("direct", 5))
		require.NoError(t, err)
		require.LessOrEqual(t, r.queue.count("claim")-before, 1, "what is published waits with the others")

		on.Store(false)
		pass(time.Second)
		require.Equal(t, 15, r.queue.verdicts()[d.Delivered])
		on.Store(true)
		pass(20 * time.Second)
		r.queue.fill(1)
		before = r.queue.count("claim")
		_, err = r.Publish(t.Context(), messages("later", 1))
		require.NoError(t, err)
		pass(40 * time.Millisecond)
		require.LessOrEqual(t, r.queue.count("claim")-before, 2)
		pass(500 * time.Millisecond)
		require.Greater(t, r.queue.count("claim")-before, 3, "after a while without it the shortest pause comes first")
		r.stop(t)
	})
}
