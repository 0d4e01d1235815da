package redisq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A call that was given up sooner than this proves nothing about its master.
const slow = time.Second

// Times of asking a master that did not answer: at once, since it may have been
// one connection only, then after probeFirst, doubling to probeMost, so that the
// node that takes over from it is met within a second.
const (
	probeFirst  = 50 * time.Millisecond
	probeMost   = 500 * time.Millisecond
	probeWithin = time.Second
)

// gates keep calls away from masters of a cluster that do not answer. A call
// waits for all its masters, so that one that hangs would hold up what the
// others could do, by a timeout each time. After the first, calls to it fail at
// once, until a PING of our own got through. There are gates in a cluster only:
// where there is one master nothing can be held up but itself, and it is
// reached as soon as it is back.
type gates struct {
	fault string      // what is told of a master whose gate is closed
	any   atomic.Bool // one is closed: what every call asks

	mu     sync.Mutex       // guards what follows
	closed map[string]error // address: why
	ended  bool             // no more probes

	probes sync.WaitGroup
	end    context.Context // of the store
	stop   context.CancelFunc
}

func newGates(fault string) *gates {
	g := &gates{fault: fault, closed: map[string]error{}}
	g.end, g.stop = context.WithCancel(context.Background())
	return g
}

// shut is the error of a call to a master that is not even tried; nil: it may be.
func (g *gates) shut(addr string) error {
	if !g.any.Load() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if why := g.closed[addr]; why != nil {
		return fmt.Errorf("%w: %s %s: %v", errNotTried, addr, g.fault, why) // which is of another call
	}
	return nil
}

// close closes the gate of a master, and has probe called until it reports that
// the gate may be opened.
func (g *gates) close(addr string, why error, probe func(ctx context.Context) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || g.closed[addr] != nil {
		return
	}
	g.closed[addr] = why
	g.any.Store(true)
	g.probes.Go(func() {
		wait := time.Duration(0)
		for sleep(g.end, wait) && !probe(g.end) {
			wait = min(max(2*wait, probeFirst), probeMost)
		}
		g.open(addr)
	})
}

func (g *gates) open(addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.closed, addr)
	g.any.Store(len(g.closed) > 0)
}

// finish ends all probes.
func (g *gates) finish() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	g.stop()
	g.probes.Wait()
}

// noteLost draws the conclusions of an error that is no answer of Redis: which
// lines are dead, which node may have taken over, and that no other call shall wait.
func (s *Store) noteLost(ctx context.Context, master *redis.Client, err error, began time.Time) {
	switch {
	case errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, redis.ErrPoolTimeout):
		return // given up by the caller; never sent
	case isTimeout(err) && time.Since(began) < slow:
		return
	}
	s.division.doubt()
	addr := master.Options().Addr
	if isTimeout(err) {
		if s.cluster == nil && s.answers(master) {
			return // only this call took too long: the lines of others are alive, and leases stay
		}
		if s.cluster == nil {
			addr = "" // of whichever node the client's address led to
		}
		s.lines.cut(addr, began)
	}
	if s.cluster == nil {
		return
	}
	s.reload(ctx)
	s.gates.close(addr, err, func(ctx context.Context) bool {
		s.reload(ctx)
		call, cancel := context.WithTimeout(ctx, probeWithin)
		defer cancel()
		err := master.Ping(call).Err()
		if err != nil && wordOf(err) == "" && !errors.Is(err, redis.ErrClosed) && s.serves(addr) {
			return false
		}
		s.noteTakeover()
		return true
	})
}

// answers reports whether a server answers a question of its own.
func (s *Store) answers(server *redis.Client) bool {
	call, cancel := context.WithTimeout(s.gates.end, probeWithin)
	defer cancel()
	return server.Ping(call).Err() == nil
}

// noteTakeover has the watcher told that another node may have taken over, and
// know less.
func (s *Store) noteTakeover() {
	s.division.doubt()
	select {
	case s.takeover <- struct{}{}:
	default: // it is about to be told
	}
}

// lostOf is the first error that is no answer of Redis.
func lostOf(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && wordOf(err) == "" {
			return err
		}
	}
	return nil
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// reload has the table of a cluster's slots read again, in the background and
// at most every 200 ms: a client that waits for MOVED to do so never learns of a
// node that took over from one that is dead, but for once a minute. (Measured: 58
// s without, under 4 with.)
func (s *Store) reload(ctx context.Context) {
	if s.cluster != nil {
		s.cluster.ReloadState(ctx)
	}
}

// serves reports whether the master with an address holds any partition, or home.
func (s *Store) serves(addr string) bool {
	for n := home; n < len(s.tags); n++ {
		master, err := s.cluster.MasterForKey(s.gates.end, s.tagOf(n))
		if err != nil || master.Options().Addr == addr {
			return true
		}
	}
	return false
}

// masters are the nodes that hold partitions, or home, in no order.
func (s *Store) masters(ctx context.Context) ([]*redis.Client, error) {
	if s.cluster == nil {
		return []*redis.Client{s.single}, nil
	}
	var list []*redis.Client
	met := map[*redis.Client]bool{}
	for n := home; n < len(s.tags); n++ {
		master, err := s.cluster.MasterForKey(ctx, s.tagOf(n))
		if err != nil {
			return nil, s.failed("find the masters", fmt.Errorf("%w: %w", errNotTried, err))
		}
		if !met[master] {
			met[master] = true
			list = append(list, master)
		}
	}
	return list, nil
}
