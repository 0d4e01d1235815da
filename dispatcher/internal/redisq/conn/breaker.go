package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

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

// slow is how long a call must have taken before its timeout says anything about its
// master.
const slow = time.Second

// onLost handles an error without a response of Redis. It closes dead connections, finds
// out whether another node has taken over, and opens the breaker so that other calls do
// not wait too.
func (c *Client) onLost(ctx context.Context, master *redis.Client, err error, began time.Time) {
	switch {
	case errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, redis.ErrPoolTimeout):
		return // the caller gave up before it was sent
	case IsTimeout(err) && time.Since(began) < slow:
		return
	}
	c.Doubt()
	addr := master.Options().Addr
	if IsTimeout(err) {
		if c.cluster == nil && c.answers(master) {
			return // only this call took too long; other connections and leases are fine
		}
		if c.cluster == nil {
			addr = "" // of any node behind the client's address
		}
		c.conns.cut(addr, began)
	}
	if c.cluster == nil {
		return
	}
	c.reload(ctx)
	c.breaker.trip(tripped{addr, silentMaster}, err, func(ctx context.Context) bool {
		c.reload(ctx)
		call, cancel := context.WithTimeout(ctx, probeWithin)
		defer cancel()
		err := master.Ping(call).Err()
		if err != nil && Word(err) == "" && !errors.Is(err, redis.ErrClosed) && c.holds(addr) {
			return false
		}
		c.NoteTakeover()
		return true
	})
}

// onWeak makes durable calls to a master fail at once until its writes become durable
// again. Otherwise each would delay the calls to other masters by waitMost.
func (c *Client) onWeak(master *redis.Client, why error) {
	if c.cluster == nil {
		return
	}
	addr := master.Options().Addr
	c.breaker.trip(tripped{addr, weakMaster}, why, func(ctx context.Context) bool {
		pipe := master.Pipeline()
		pipe.Ping(ctx) // a wait covers the writes before the previous command
		waited := c.askDurable(ctx, pipe)
		_, err := pipe.Exec(ctx)
		return err == nil && waited() == nil || errors.Is(err, redis.ErrClosed) || !c.holds(addr)
	})
}

// answers reports whether a server responds to a ping.
func (c *Client) answers(server *redis.Client) bool {
	call, cancel := context.WithTimeout(c.breaker.end, probeWithin)
	defer cancel()
	return server.Ping(call).Err() == nil
}

// NoteTakeover reports that another node may have taken over, which may have older data.
func (c *Client) NoteTakeover() {
	c.Doubt()
	select {
	case c.takeovers <- struct{}{}:
	default: // one is pending already
	}
}

// Takeovers returns a channel with a value after another node may have taken over.
func (c *Client) Takeovers() <-chan struct{} { return c.takeovers }

// lostOf returns the first error without a response of Redis.
func lostOf(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && Word(err) == "" {
			return err
		}
	}
	return nil
}

// IsTimeout reports whether an error is a timeout.
func IsTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}
