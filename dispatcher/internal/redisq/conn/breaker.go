package conn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Times of asking a master that did not answer. It is asked at once, since only one
// connection may have failed, then after probeFirst, doubling to probeMost. So a
// node that takes over from it is found within a second.
const (
	probeFirst  = 50 * time.Millisecond
	probeMost   = 500 * time.Millisecond
	probeWithin = time.Second
)

// reason says why calls are kept away from a master.
type reason string

// The reasons: the first is of all calls, the second of durable ones.
const (
	silentMaster reason = "does not answer"
	weakMaster   reason = "does not make durable what is written"
)

// tripped is one fault of one master.
type tripped struct {
	addr   string
	reason reason
}

// nodeBreaker keeps calls away from masters of a cluster that do not answer. A
// batch waits for all its masters: one that hangs would hold up the others by a
// timeout each time. After the first timeout, calls to it fail at once, until a
// probe of our own got through. It trips in a cluster only. Where there is one
// master it can hold up only itself, and it is reached as soon as it is back.
type nodeBreaker struct {
	any atomic.Bool // it tripped for some master; every call reads it

	mu    sync.Mutex        // guards what follows
	open  map[tripped]error // why
	ended bool              // no more probes

	probes sync.WaitGroup
	end    context.Context // of the client
	stop   context.CancelFunc
}

func newNodeBreaker() *nodeBreaker {
	b := &nodeBreaker{open: map[tripped]error{}}
	b.end, b.stop = context.WithCancel(context.Background())
	return b
}

// check is the error of a call to a master that is not tried, else nil.
func (b *nodeBreaker) check(addr string, durable bool) error {
	if !b.any.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range []reason{silentMaster, weakMaster} {
		if why := b.open[tripped{addr, r}]; why != nil && (durable || r == silentMaster) {
			return fmt.Errorf("%w: %s %s: %v", ErrNotTried, addr, r, why) // which is of another call
		}
	}
	return nil
}

// trip keeps calls away from a master, and has probe called until it reports
// that they may go there again.
func (b *nodeBreaker) trip(at tripped, why error, probe func(ctx context.Context) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.open[at] != nil {
		return
	}
	b.open[at] = why
	b.any.Store(true)
	b.probes.Go(func() {
		wait := time.Duration(0)
		for Sleep(b.end, wait) && !probe(b.end) {
			wait = min(max(2*wait, probeFirst), probeMost)
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
