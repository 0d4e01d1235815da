package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// errLate is of a call that took too long.
var errLate = fmt.Errorf("%w: %w", d.ErrUnavailable, context.DeadlineExceeded)

// failOnce fails the next call of a name.
func failOnce(r *rig, name string, err error) {
	r.queue.set(func() {
		left := 1
		r.queue.hook = func(call string) error {
			if call == name && left > 0 {
				left--
				return err
			}
			return nil
		}
	})
}

// A flush that was too large for its time is no store that is lost, while beats
// and claims are answered.
func TestOneCallWithoutAnAnswerIsNoLostStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		for i := range 5 {
			failOnce(r, "schedule", errLate)
			_, err := r.Publish(t.Context(), messages("m", 1))
			require.NoError(t, err, "its answer tells")
			pass(10 * time.Second)
			require.Equal(t, 1, strings.Count(r.log.String(), "a call had no answer"), "%d: once a minute", i)
		}
		require.Contains(t, r.log.String(), "stage=schedule calls=1")
		pass(time.Minute)
		failOnce(r, "schedule", errLate)
		_, err := r.Publish(t.Context(), messages("m", 1))
		require.NoError(t, err)
		pass(10 * time.Second)
		require.Contains(t, r.log.String(), "stage=schedule calls=5", "the others are counted")
		require.NotContains(t, r.log.String(), "store lost")
		require.NotContains(t, r.log.String(), "store back")
		r.stop(t)
	})
}

func TestASecondCallWithoutAnAnswerTellsThatTheStoreIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		pass(wait.BeatEvery / 2) // the next beat is a second away
		r.queue.set(func() { r.queue.hook = func(string) error { return errLate } })
		_, err := r.Publish(t.Context(), messages("m", 1))
		require.NoError(t, err)
		pass(wait.BeatEvery)
		require.Equal(t, 1, strings.Count(r.log.String(), `msg="store lost"`))
		r.queue.set(func() { r.queue.hook = nil })
		pass(2 * outage.Calm)
		require.Equal(t, 1, strings.Count(r.log.String(), "store back"))
		require.NotContains(t, r.log.String(), "a call had no answer")
		r.stop(t)
	})
}

func TestAFaultThatIsNoSilenceIsToldAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		r.start(t)
		for n, err := range []error{d.ErrNotDurable, d.ErrUnavailable} { // not durable; refused, as by a replica
			failOnce(r, "schedule", err)
			_, err := r.Publish(t.Context(), messages("m", 1))
			require.NoError(t, err)
			pass(2 * outage.Calm)
			require.Equal(t, n+1, strings.Count(r.log.String(), `msg="store lost"`))
			require.Equal(t, n+1, strings.Count(r.log.String(), "store back"))
		}
		r.stop(t)
	})
}

// A trim that failed looked at no lanes, so it proves nothing of the store.
func TestAStoreThatAnswersNothingIsNotToldToBeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		pass(wait.BeatEvery / 2)
		r.queue.set(func() { r.queue.hook = func(string) error { return errLate } })
		pass(10 * time.Minute) // guards too, which have partitions trimmed
		require.Equal(t, 1, strings.Count(r.log.String(), `msg="store lost"`))
		require.NotContains(t, r.log.String(), "store back")
		r.queue.set(func() { r.queue.hook = nil })
		pass(2 * outage.Calm)
		require.Equal(t, 1, strings.Count(r.log.String(), "store back"))
		r.stop(t)
	})
}

// To count takes many calls, and each of them waits for a store that hangs.
func TestCountingGivesUpBeforeItsCallerDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.hangs = "stats" })
		r.start(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := r.Stats(ctx)
		require.ErrorIs(t, err, d.ErrUnavailable)
		require.NoError(t, ctx.Err())
		r.stop(t)
	})
}
