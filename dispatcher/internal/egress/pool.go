package egress

import (
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// sweepEvery is how long we keep an idle connection that its receiver has
// closed. To peek at all of them costs some microseconds.
const sweepEvery = time.Second

// shedLeast is some descriptors for each attempt that may run at once.
const shedLeast = 64

// target is where connections lead that may stand in for each other. Lanes share
// none: a receiver could write an answer before it is asked, and the next call on
// that connection, which may be another tenant's, would take it for its own.
type target struct {
	scheme, host string
	lane         dispatcher.Lane
	linked       bool // a link set the URL: what it may reach was judged by other rules
}

// place is where a connection is in the pool.
type place struct {
	to           target
	idle         bool
	since        time.Time // when it was put there
	older, newer *conn     // of all that are idle
}

// pool keeps connections that are idle. While there are none, it costs nothing.
type pool struct {
	most    int // in all
	perHost int

	mu       sync.Mutex // guards all below, and the places of idle connections
	hosts    map[target]*host
	size     int
	oldest   *conn
	newest   *conn
	shut     bool        // connections that come back are closed, until one is taken again
	sweeping bool        // a sweep is due or under way
	timer    *time.Timer // nil: none yet
}

// host has its idle connections, the newest last.
type host struct{ conns []*conn }

func newPool(most, perHost int) *pool {
	return &pool{most: most, perHost: perHost, hosts: map[target]*host{}}
}

// take takes the newest idle connection to a target, nil if there is none. So
// those that are not needed grow old and expire.
func (p *pool) take(to target) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = false
	h := p.hosts[to]
	if h == nil || len(h.conns) == 0 {
		return nil
	}
	c := h.conns[len(h.conns)-1]
	p.remove(c, h)
	return c
}

// put keeps a connection, and reports whether it did.
func (p *pool) put(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[c.to]
	switch {
	case p.shut || p.most <= 0 || h != nil && len(h.conns) >= p.perHost:
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
		p.rest()
	}
	return true
}

// rest has a sweep made after a while. The caller holds mu.
func (p *pool) rest() {
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

// remove takes an idle connection out. The caller holds mu.
func (p *pool) remove(c *conn, h *host) {
	last := len(h.conns) - 1
	for i := last; i >= 0; i-- { // mostly it is the last
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

// sweep closes connections that were idle too long, and those that the receiver
// closed or spoke on meanwhile.
func (p *pool) sweep() {
	now := time.Now()
	for _, c := range p.resting(now) {
		p.mu.Lock()
		// It may have been in use since. Where the system can't be asked, the
		// probe takes a millisecond, and waits until the connection is taken.
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
		p.rest()
	}
}

// resting lists what has been idle since the last sweep, the oldest first.
func (p *pool) resting(now time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*conn
	for c := p.oldest; c != nil && now.Sub(c.since) >= sweepEvery; c = c.newer {
		all = append(all, c)
	}
	return all
}

// shed closes the older half of the idle connections, at least shedLeast, and
// reports whether there were any. The newer half is likelier to be used again.
func (p *pool) shed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := p.size > 0
	for n := max(p.size/2, shedLeast); n > 0 && p.oldest != nil; n-- {
		p.drop(p.oldest)
	}
	return had
}

// close closes all that are idle.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	for p.oldest != nil {
		p.drop(p.oldest)
	}
	clear(p.hosts)
	if p.timer != nil && p.timer.Stop() {
		p.sweeping = false
	}
}
