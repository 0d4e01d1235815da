package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantileIsTheLeastThatAShareDoesNotExceed(t *testing.T) {
	t.Parallel()
	upTo := func(n int) (list []time.Duration) {
		for i := range n {
			list = append(list, time.Duration(i+1))
		}
		return list
	}
	for name, c := range map[string]struct {
		of    []time.Duration
		share float64
		want  time.Duration
	}{
		"of nothing":               {nil, 0.5, 0},
		"of one":                   {upTo(1), 0.99, 1},
		"the least":                {upTo(10), 0, 1},
		"the middle of an odd one": {upTo(5), 0.5, 3},
		"the lower middle":         {upTo(4), 0.5, 2},
		"of ten, p99 is the worst": {upTo(10), 0.99, 10},
		"of a hundred, the 99th":   {upTo(100), 0.99, 99},
		"of 400, the 396th":        {upTo(400), 0.99, 396},
		"the most":                 {upTo(400), 1, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, quantile(c.of, c.share))
		})
	}
}

func TestPaceDoesNotWaitForAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		begun, err := pace(t.Context(), 100, 5, func(i int) error {
			if i == 0 {
				time.Sleep(time.Minute) // of the bubble's clock
			}
			return nil
		})
		require.NoError(t, err)
		for i, at := range begun {
			require.Equal(t, time.Duration(i)*10*time.Millisecond, at.Sub(start))
		}
		require.Equal(t, time.Minute, time.Since(start), "the slow answer is waited for at the end")
	})
}

func TestPaceEndsAtTheFirstError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		var calls atomic.Int32
		_, err := pace(t.Context(), 10, 100, func(i int) error {
			if calls.Add(1); i == 2 {
				return refused
			}
			return nil
		})
		require.ErrorIs(t, err, refused)
		require.EqualValues(t, 3, calls.Load())
	})
}

func TestPaceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		var calls atomic.Int32
		_, err := pace(ctx, 10, 100, func(int) error { calls.Add(1); return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 3, calls.Load())
	})
}

func TestWhatIsDueLaterIsPublishedBefore(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Second, (&site{}).lead(1000), "nobody knows yet how long it takes")
	require.Equal(t, 4*time.Second, (&site{each: 100 * time.Microsecond}).lead(10_000))
	zone := time.FixedZone("", 3600)
	require.Equal(t, `,"deliver_at":"2026-11-21T12:00:01.020Z"`, dueAt(time.Date(2026, 11, 21, 13, 0, 1, 20e6, zone)))
}
