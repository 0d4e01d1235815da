package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

// The commands of one call of an idle store, as a real one counts them.
const (
	peekTime, peekEach, versionsEach, trimEach = 1, 3, 3, 18
	versionsOfACall                            = 64
)

func TestAnIdleInstanceAsksLittleHoweverOftenItsGuardIsToCome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ partitions, paused int }{
		"one partition": {1, 0}, "many": {16, 0}, "one with endpoints that are paused": {1, 300}, "many, with paused ones": {16, 300},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, func(o *engine.Options, q *testQueue, _ *fakeSender) {
					q.partitions, o.PollEvery = c.partitions, time.Second
				})
				for n := range c.paused {
					r.create(t, paused, uid(fmt.Sprintf("u%d", n)))
				}
				r.start(t)
				pass(2 * time.Minute)
				reads := func() (n int) {
					for _, c := range r.queue.seen("peek") {
						n += peekTime + peekEach*c.n
					}
					n += r.queue.count("stopped lanes") + r.store.count("deleted endpoints")
					if c.paused > 0 {
						n += r.store.count("endpoint versions") * (1 + versionsEach*(c.paused/c.partitions/versionsOfACall+1))
					}
					return n
				}
				before, trims := reads(), r.queue.count("trim")
				pass(10 * time.Minute)
				require.LessOrEqual(t, reads()-before, 500, "0.6 a second, a turn that began before, and a page that comes twice")
				require.LessOrEqual(t, trimEach*(r.queue.count("trim")-trims), 240, "0.4 a second")
				require.Positive(t, r.queue.count("trim")-trims, "age goes on without work")
				require.Positive(t, r.queue.count("stopped lanes"))
				r.stop(t)
			})
		})
	}
}
