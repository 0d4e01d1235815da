package conn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Backoff of probes to a master that did not respond. The first probe is sent at once,
// because only one connection may have failed. The next follows after probeFirst, and the
// wait doubles to probeMost. So a node that takes over is found within a second.
const (
	probeFirst  = 50 * time.Millisecond
	probeMost   = 500 * time.Millisecond
	probeWithin = time.Second
)

// reason says why the breaker is open for a master.
type reason string

// The reasons. The first stops all calls, the second only durable ones.
const (
	silentMaster reason = "does not answer"
	weakMaster   reason = "does not make writes durable"
)

// tripped is one fault of one master.
type tripped struct {
	addr   string
	reason reason
}

// nodeBreaker is a circuit breaker for each master of a cluster. A batch waits for all
// its masters, so a master that hangs would delay the others by a timeout each time.
// After the first timeout, calls to it fail at once, until a probe succeeds. It is used
// in a cluster only, because a single master delays only itself, and is used again as
// soon as it responds.
type nodeBreaker struct {
	any atomic.Bool // it is open for some master; every call reads it

	mu    sync.Mutex        // guards the fields below
	open  map[tripped]error // with the first error
	ended bool              // no more probes

	probes sync.WaitGroup
	end    context.Context // ends with the client
	stop   context.CancelFunc
}

func newNodeBreaker() *nodeBreaker {
	b := &nodeBreaker{open: map[tripped]error{}}
	b.end, b.stop = context.WithCancel(context.Background())
	return b
}

// check returns the error of a call to a master with an open breaker, or nil.
func (b *nodeBreaker) check(addr string, durable bool) error {
	if !b.any.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range []reason{silentMaster, weakMaster} {
		if why := b.open[tripped{addr, r}]; why != nil && (durable || r == silentMaster) {
			return fmt.Errorf("%w: %s %s: %v", ErrNotTried, addr, r, why) // the error of another call
		}
	}
	return nil
}

// trip opens the breaker for a master, and calls probe until it returns true.
func (b *nodeBreaker) trip(at tripped, why error, probe func(ctx context.Context) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.open[at] != nil {
		return
	}
	b.open[at] = why
	b.any.Store(true)
	b.probes.Go(func() {
		pause := time.Duration(0)
		for wait.Sleep(b.end, pause) && !probe(b.end) {
			pause = min(max(2*pause, probeFirst), probeMost)
		}
		b.close(at)
	})
}

func (b *nodeBreaker) close(at tripped) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, at)
	b.any.Store(len(b.open) > 0)
}

// finish ends all probes.
func (b *nodeBreaker) finish() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.stop()
	b.probes.Wait()
}
