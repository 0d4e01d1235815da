package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

func TestSleepWaitsForTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.True(t, wait.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(start))
		require.True(t, wait.Sleep(t.Context(), 0))
		require.True(t, wait.Sleep(t.Context(), -time.Second))
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		start := time.Now()
		require.False(t, wait.Sleep(ctx, time.Hour))
		require.Equal(t, time.Second, time.Since(start))
		require.False(t, wait.Sleep(ctx, 0))
	})
}

func TestBackoffDoublesUpToItsMost(t *testing.T) {
	for n, most := range map[int]time.Duration{-1: 1, 0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 10, 33: 10, 64: 10, 1 << 40: 10} {
		for range 100 {
			got := wait.Backoff(n, time.Second, 10*time.Second)
			require.GreaterOrEqual(t, got, most*time.Second/2, "retry %d", n)
			require.LessOrEqual(t, got, most*time.Second, "retry %d", n)
		}
	}
	require.LessOrEqual(t, wait.Backoff(32, 1<<40, 1<<62), time.Duration(1<<62), "it does not overflow")
	require.Positive(t, wait.Backoff(32, 1<<40, 1<<62))
}

func TestJitterDiffers(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[wait.Jitter(time.Hour)] = true
	}
	require.Greater(t, len(seen), 1)
	require.Zero(t, wait.Jitter(0))
	require.Zero(t, wait.Jitter(-time.Second))
}

func TestSignalsAreMerged(t *testing.T) {
	s := wait.NewSignal()
	s.Set()
	s.Set()
	<-s
	require.Empty(t, s)
	s.Set()
	require.Len(t, s, 1)
}
