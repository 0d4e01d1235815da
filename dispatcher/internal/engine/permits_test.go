package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func TestNoPermitIsTakenBeforeThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(4)
		require.Equal(t, 3, p.try(3))
		go func() { _ = p.sem.Acquire(t.Context(), 2) }()
		synctest.Wait() // it waits for the second one
		require.Zero(t, p.try(1))
		require.Equal(t, 1, p.free())
		p.release(3)
	})
}

func TestNoMorePermitsAreGatheredThanAskedFor(t *testing.T) {
	for name, freed := range map[string]int{"enough are freed": 100, "a few are freed": 10, "none is freed": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPermits(128)
				require.Equal(t, 127, p.try(127))
				got := make(chan int)
				go func() { got <- p.gather(t.Context(), 64, time.Second) }()
				synctest.Wait() // it has one, and waits for more
				p.release(freed)
				require.Equal(t, min(1+freed, 64), <-got)
				p.release(127 - freed + min(1+freed, 64))
				require.Equal(t, 128, p.free())
			})
		})
	}
}

func TestTheFirstPermitIsWaitedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(1)
		require.Equal(t, 1, p.try(1))
		got := make(chan int)
		go func() { got <- p.gather(t.Context(), 1, time.Second) }()
		synctest.Wait()
		p.release(1)
		require.Equal(t, 1, <-got)
		require.Zero(t, p.free())

		began := time.Now()
		require.Zero(t, p.gather(t.Context(), 1, time.Second), "none is freed")
		require.Equal(t, time.Second, time.Since(began))
		p.release(1)
		require.Equal(t, 1, p.gather(t.Context(), 1, time.Second), "none was lost")
	})
}

// A claim that found no permit waits until an attempt ends. Now it may get a loan before that.
func TestAnAttemptInANewLaneWakesTheClaimThatWaits(t *testing.T) {
	p := newPermits(1)
	l := newLoans(p, 1)
	p.asked.Store(true)
	require.Nil(t, l.begin(&dispatcher.Claimed{}))
	require.Empty(t, p.freed)
	require.NotNil(t, l.begin(&dispatcher.Claimed{NewLane: true}))
	require.Len(t, p.freed, 1)
}
