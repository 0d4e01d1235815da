package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

func TestASuccessAfterTheLeaseEndedCountsAndEndsNoOtherLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watch := &seen{}
		r := newTakerRig(t, func(o *engine.Options) { o.Observer = watch })
		r.start(t)
		r.queue.fill(1)
		got, err := takeOf(r, 1)
		require.NoError(t, err)
		first := &outcomesOf{}
		r.Finish(got[0], d.Handled{Verdict: d.Retry, Class: d.ClassLease}, first.done)
		pass(time.Second)
		late := &outcomesOf{}
		r.Succeeded(got[0].ID, 1, late.done)
		synctest.Wait()
		require.Equal(t, []d.Settled{{Result: d.SettledDone}}, late.list())
		require.Len(t, watch.attempts, 2)
		r.Succeeded(got[0].ID, 1, late.done)
		synctest.Wait()
		require.Equal(t, d.SettledLate, late.list()[1].Result)
		require.Len(t, watch.attempts, 2, "it had ended")

		r.queue.fill(1)
		again, err := takeOf(r, 1)
		require.NoError(t, err)
		r.Succeeded(again[0].ID, 0, late.done)
		synctest.Wait()
		require.Equal(t, 1, r.Leases(), "the lease is settled by itself")
		r.HandBack(again...)
		synctest.Wait()
		require.Zero(t, r.Leases())
		r.stop(t)
	})
}
