package conn_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

var errWhy = errors.New("i/o timeout")

func TestTheNodeBreakerRefusesCallsToAMasterUntilAProbeGetsThrough(t *testing.T) {
	for name, c := range map[string]struct {
		weak  bool
		plain bool // a call that is not durable is refused too
		words string
	}{
		"one that does not answer":    {false, true, "a does not answer: i/o timeout"},
		"one that makes nothing last": {true, false, "a does not make writes durable: i/o timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := conn.NewNodeBreaker()
				defer b.Finish()
				var back atomic.Bool
				probe := func(context.Context) bool { return back.Load() }
				b.Trip("a", c.weak, errWhy, probe)

				err := b.Check("a", true)
				require.ErrorIs(t, err, conn.ErrNotTried)
				require.ErrorContains(t, err, c.words)
				require.NotErrorIs(t, err, errWhy, "which is of another call")
				if c.plain {
					require.Error(t, b.Check("a", false))
				} else {
					require.NoError(t, b.Check("a", false))
				}
				require.NoError(t, b.Check("b", true), "another master")

				time.Sleep(time.Minute)
				require.Error(t, b.Check("a", true), "no probe got through")
				back.Store(true)
				time.Sleep(time.Second)
				require.NoError(t, b.Check("a", true))
			})
		})
	}
}

// One reason ends while the other goes on.
func TestTheReasonsOfTheNodeBreakerEndEachByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := conn.NewNodeBreaker()
		defer b.Finish()
		b.Trip("a", true, errWhy, func(context.Context) bool { return false })
		b.Trip("a", false, errWhy, func(context.Context) bool { return true })
		synctest.Wait()
		require.NoError(t, b.Check("a", false))
		require.ErrorContains(t, b.Check("a", true), "durable")
	})
}
