package egress

import (
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// sweepEvery is the longest time that we keep an idle connection after its receiver has
// closed it. Peeking at all of them takes some microseconds.
const sweepEvery = time.Second

// shedLeast frees some descriptors for each attempt that may run at once.
const shedLeast = 64

// target is the key of the pool: connections of one target can replace each other. Lanes
// share no connections, because a receiver could write a response before the request. The
// next call on that connection, maybe another tenant's, would take it for its own.
type target struct {
	scheme, host string
	lane         dispatcher.Lane
	linked       bool // the URL was set through a link, so other rules decided which addresses it may reach
}

// place is the position of a connection in the pool.
type place struct {
	to           target
	idle         bool
	since        time.Time // when it was put there
	older, newer *conn     // in the list of all idle connections
}

// pool keeps idle connections. An empty pool has no timer.
type pool struct {
	most    int // in total
	perHost int

	mu       sync.Mutex // guards the fields below, and the places of idle connections
	hosts    map[target]*host
	size     int
	oldest   *conn
	newest   *conn
	closed   bool        // put closes connections until the next take
	sweeping bool        // a sweep is scheduled or running
	timer    *time.Timer // nil: not made yet
}

// host has the idle connections of one target, the newest last.
type host struct{ conns []*conn }

func newPool(most, perHost int) *pool {
	return &pool{most: most, perHost: perHost, hosts: map[target]*host{}}
}

// take takes the newest idle connection to a target out of the pool, or returns nil. So
// connections that are not needed grow old and expire.
func (p *pool) take(to target) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
	h := p.hosts[to]
	if h == nil || len(h.conns) == 0 {
		return nil
	}
	c := h.conns[len(h.conns)-1]
	p.remove(c, h)
	return c
}

// put adds a connection to the pool, and reports whether it did.
func (p *pool) put(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[c.to]
	switch {
	case p.closed || p.most <= 0 || h != nil && len(h.conns) >= p.perHost:
		return false
	case h == nil:
		h = &host{}
		p.hosts[c.to] = h
	}
	if p.size >= p.most {
		p.drop(p.oldest)
	}
	h.conns = append(h.conns, c)
	c.idle, c.since = true, time.Now()
	c.older = p.newest
	if p.newest != nil {
		p.newest.newer = c
	} else {
		p.oldest = c
	}
	p.newest = c
	p.size++
	if !p.sweeping {
		p.sweeping = true
		p.scheduleSweep()
	}
	return true
}

// scheduleSweep schedules the next sweep. The caller holds mu.
func (p *pool) scheduleSweep() {
	if p.timer == nil {
		p.timer = time.AfterFunc(sweepEvery, p.sweep)
		return
	}
	p.timer.Reset(sweepEvery)
}

// drop closes an idle connection. The caller holds mu.
func (p *pool) drop(c *conn) {
	p.remove(c, p.hosts[c.to])
	c.close()
}

// remove takes an idle connection out of the pool. The caller holds mu.
func (p *pool) remove(c *conn, h *host) {
	last := len(h.conns) - 1
	for i := last; i >= 0; i-- { // usually it is the last
		if h.conns[i] == c {
			copy(h.conns[i:], h.conns[i+1:])
			break
		}
	}
	h.conns[last] = nil
	h.conns = h.conns[:last]
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		p.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		p.newest = c.older
	}
	c.idle, c.older, c.newer = false, nil, nil
	p.size--
}

// sweep closes connections that were idle for too long, and connections that the receiver
// has closed or written to.
func (p *pool) sweep() {
	now := time.Now()
	for _, c := range p.resting(now) {
		p.mu.Lock()
		// It may have been used since. If the system can't report pending bytes, probe
		// takes a millisecond, so it waits until the connection is taken.
		rested := now.Sub(c.since)
		if c.idle && (rested >= idleTimeout || rested >= sweepEvery && c.raw != nil && c.probe() != stateQuiet) {
			p.drop(c)
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for to, h := range p.hosts {
		if len(h.conns) == 0 {
			delete(p.hosts, to)
		}
	}
	p.sweeping = p.size > 0
	if p.sweeping {
		p.scheduleSweep()
	}
}

// resting returns the connections that have been idle since the last sweep, oldest first.
func (p *pool) resting(now time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*conn
	for c := p.oldest; c != nil && now.Sub(c.since) >= sweepEvery; c = c.newer {
		all = append(all, c)
	}
	return all
}

// shed closes the older half of the idle connections, at least shedLeast, and reports
// whether there were any. The newer half is more likely to be used again.
func (p *pool) shed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := p.size > 0
	for n := max(p.size/2, shedLeast); n > 0 && p.oldest != nil; n-- {
		p.drop(p.oldest)
	}
	return had
}

// close closes all idle connections.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.oldest != nil {
		p.drop(p.oldest)
	}
	clear(p.hosts)
	if p.timer != nil && p.timer.Stop() {
		p.sweeping = false
	}
}
