package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
)

func tasks(n int) (list []d.Claimed) {
	for i := range n {
		list = append(list, d.Claimed{ID: d.DeliveryID{Lane: "u_0", Message: fmt.Sprintf("t_%d", i)}})
	}
	return list
}

// runLog counts how often each task ran, and how many did at once.
type runLog struct {
	mu    sync.Mutex // guards the fields below
	times map[string]int
	now   int
	most  int
}

func (l *runLog) begin(c d.Claimed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times == nil {
		l.times = map[string]int{}
	}
	l.times[c.ID.Message]++
	l.now++
	l.most = max(l.most, l.now)
}

func (l *runLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now--
}

func (l *runLog) running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *runLog) peak() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

func (l *runLog) requireOnce(t *testing.T, n int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Len(t, l.times, n)
	for id, times := range l.times {
		require.Equal(t, 1, times, id)
	}
}

// newTestGate runs a gate whose tasks take a simulated time each.
func newTestGate(t *testing.T, places int, wait func(d.Claimed) time.Duration) (*engine.Workers, *runLog) {
	t.Helper()
	log := &runLog{}
	g := engine.NewWorkers(places, func(c d.Claimed) {
		log.begin(c)
		defer log.end()
		time.Sleep(wait(c))
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		g.Close()
		g.Wait()
		cancel()
		require.NoError(t, <-ended)
	})
	return g, log
}

func steady(wait time.Duration) func(d.Claimed) time.Duration {
	return func(d.Claimed) time.Duration { return wait }
}

func TestQuickAttemptsNeverRunInMorePlacesThanThereAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, log := newTestGate(t, 8, steady(engine.SlowAfter/4))
		g.Put(tasks(1000)...)
		pass(time.Second)
		log.requireOnce(t, 1000)
		require.Equal(t, 8, log.peak())
	})
}

func TestSlowAttemptsLeaveTheirPlacesToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, log := newTestGate(t, 8, steady(time.Hour))
		g.Put(tasks(100)...)
		synctest.Wait()
		require.Equal(t, 8, log.running(), "before they are slow")
		pass(20 * 2 * engine.SlowAfter)
		require.Equal(t, 100, log.running())
		pass(time.Hour)
		log.requireOnce(t, 100)
	})
}

func TestQuickAttemptsPassSlowOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		g, log := newTestGate(t, 4, func(d.Claimed) time.Duration {
			if n.Add(1) <= 50 {
				return time.Minute
			}
			return time.Microsecond
		})
		g.Put(tasks(500)...)
		pass(time.Second)
		require.Equal(t, 50, log.running(), "only the slow ones still run")
		log.requireOnce(t, 500)
		pass(time.Minute)
	})
}

func TestWhatIsPutFromManySidesRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, log := newTestGate(t, 4, func(c d.Claimed) time.Duration {
			return time.Duration(len(c.ID.Message)) * engine.SlowAfter / 2
		})
		all := tasks(2000)
		var putting sync.WaitGroup
		for i := 0; i < len(all); i += 20 {
			putting.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond / 7)
				g.Put(all[i : i+20]...)
			})
		}
		putting.Wait()
		pass(time.Minute)
		log.requireOnce(t, len(all))
	})
}

func TestCloseAnswersWhatWasNotStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, log := newTestGate(t, 8, steady(time.Hour))
		all := tasks(100)
		g.Put(all...)
		synctest.Wait()
		left := g.Close()
		require.Equal(t, all[8:], left)
		require.Empty(t, g.Close(), "it answers them once")
		pass(time.Minute)
		log.requireOnce(t, 8) // nothing starts any more
		pass(time.Hour)
		g.Wait()
		require.Zero(t, log.running())
	})
}

func TestAGateThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, log := newTestGate(t, 4, steady(time.Millisecond))
		const kept, turns = 40, 2000
		all := tasks(kept + 4*turns)
		g.Put(all[:kept]...)
		for i := range turns { // four come as four go
			pass(time.Millisecond)
			g.Put(all[kept+4*i : kept+4*i+4]...)
		}
		require.Less(t, g.Room(), 4*kept)
		pass(time.Second)
		log.requireOnce(t, len(all))
	})
}
