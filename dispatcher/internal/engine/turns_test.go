package engine_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
)

func TestReadersTakeTurnsAndTheRestAreToldToComeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		goOn := make(chan struct{})
		r.queue.hook = func(name string) error {
			if name == "list" {
				<-goOn
			}
			return nil
		}
		const callers = 30
		answers := make(chan error, callers)
		for range callers {
			go func() {
				_, err := r.Deliveries(t.Context(), d.Filter{})
				answers <- err
			}()
		}
		synctest.Wait()
		require.Equal(t, 2, r.queue.count("list"), "so many run at once")
		require.Len(t, answers, callers-18, "the others wait, but for so many")
		for range callers - 18 {
			require.ErrorIs(t, <-answers, d.ErrListing)
		}
		_, _, err := r.Lanes(t.Context(), 1, "")
		require.ErrorIs(t, err, d.ErrListing)
		close(goOn)
		for range 18 {
			require.NoError(t, <-answers)
		}
		_, err = r.Deliveries(t.Context(), d.Filter{})
		require.NoError(t, err)
	})
}

func TestAReaderWhoIsGoneLeavesItsTurnToAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRig(t, nil)
		goOn := make(chan struct{})
		r.queue.hook = func(string) error { <-goOn; return nil }
		for range 2 {
			go func() { _, _ = r.Deliveries(t.Context(), d.Filter{}) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			_, err := r.Deliveries(ctx, d.Filter{})
			require.ErrorIs(t, err, context.Canceled)
		}
		close(goOn)
	})
}
