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

const (
	// distrustFor is how long the connections of a target are used once, after it wrote a response
	// that nobody asked for. HTTP/1.1 can't tell such a response from the one to the next request.
	distrustFor = time.Hour
	// maxDistrusted bounds the targets that are remembered for that, up to 2 KiB each, as a URL. The
	// one that was noticed first is forgotten first.
	maxDistrusted = 1024
)

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

	distrusted map[target]time.Time // until when; nil: none yet
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
	case p.closed || p.most <= 0 || h != nil && len(h.conns) >= p.perHost || p.distrusts(c.to):
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

// distrusts reports whether a target wrote a response that nobody asked for within the last
// hour. The caller holds mu.
func (p *pool) distrusts(to target) bool {
	if len(p.distrusted) == 0 {
		return false
	}
	until, ok := p.distrusted[to]
	if ok && !time.Now().Before(until) {
		delete(p.distrusted, to)
		return false
	}
	return ok
}

// distrust makes each connection of a target carry one request, for an hour. It closes the idle
// ones.
func (p *pool) distrust(to target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if _, known := p.distrusted[to]; !known && len(p.distrusted) >= maxDistrusted {
		first := to
		for other, until := range p.distrusted {
			if first == to || until.Before(p.distrusted[first]) {
				first = other
			}
		}
		delete(p.distrusted, first)
	}
	if p.distrusted == nil {
		p.distrusted = map[target]time.Time{}
	}
	p.distrusted[to] = now.Add(distrustFor)
	for h := p.hosts[to]; h != nil && len(h.conns) > 0; {
		p.drop(h.conns[len(h.conns)-1])
	}
}

// discard closes a connection that is not in the pool, because of its state. Bytes that no request
// asked for make its target distrusted.
func (p *pool) discard(c *conn, found connState) {
	unasked := found == stateSpoken && c.spoke()
	c.close()
	if unasked {
		p.distrust(c.to)
	}
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
		if found, over := p.expire(c, now); over {
			p.discard(c, found)
		}
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

// expire takes a connection out of the pool if it was idle for too long, or is not quiet any more.
func (p *pool) expire(c *conn, now time.Time) (found connState, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rested := now.Sub(c.since)
	if !c.idle || rested < sweepEvery { // it was used since
		return stateQuiet, false
	}
	// If the system can't report pending bytes, probe takes a millisecond, so it waits until the
	// connection is taken.
	if c.raw != nil {
		found = c.probe()
	}
	if over = rested >= idleTimeout || found != stateQuiet; over {
		p.remove(c, p.hosts[c.to])
	}
	return found, over
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
