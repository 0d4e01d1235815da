package engine

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
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
