package callers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrShare says that a caller has so many connections or requests under way that no more
// are served, so that others are.
var ErrShare = errors.New("this caller has half of all connections, and others need them")

// Guest is one connection.
type Guest struct {
	net.Conn
	guests  *Guests
	remote  netip.Addr
	proxied bool // it comes from a trusted proxy, so its requests are of different callers

	idle   atomic.Int64 // ns since 1970 when it began to wait for its next request; 0: one is under way
	known  atomic.Bool  // a request on it had a valid key, or came by a link
	closed atomic.Bool

	placed atomic.Bool // it has one of the places; changed under Guests.mu

	// Guests.mu guards these.
	who     Identity // whose it is; of a proxied one: whose request is under way
	counted bool     // that request counts

	mu    sync.Mutex // guards asked
	asked time.Time  // the deadline of the server, where a shorter one is set; zero: there is none
}

// handler serves the requests of guests. What is beside the places is closed after its
// first request, unless that finds a place.
func handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := of(r.Context())
		if c == nil {
			h.ServeHTTP(w, r)
			return
		}
		c.idle.Store(0)
		if !c.placed.Load() {
			w.Header().Set("Connection", "close")
		}
		defer c.end()
		h.ServeHTTP(w, r)
	})
}

// follow notes when a connection has written a response and waits.
func follow(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*Guest); ok && state == http.StateIdle {
		c.idle.Store(time.Now().UnixNano())
	}
}

// end ends a request.
func (c *Guest) end() {
	if !c.proxied {
		return
	}
	c.guests.mu.Lock()
	defer c.guests.mu.Unlock()
	if c.counted {
		c.counted = false
		less(c.guests.asks, c.who)
	}
}

// Identify notes whose request it is. A connection beside the places gets a place, if one
// makes room for this caller. ErrShare refuses the request. Requests that came by no guest
// are all served.
func Identify(w http.ResponseWriter, r *http.Request, who Identity) error {
	c := of(r.Context())
	switch {
	case c == nil:
		return nil
	case c.proxied:
		return c.guests.begin(c, who)
	case c.known.Load() && c.owned(who):
		return nil
	}
	gone, moved, err := c.guests.identify(c, who)
	if gone != nil {
		_ = gone.Close()
	}
	if moved {
		w.Header().Del("Connection")
	}
	if err == nil && who.Rank > Stranger {
		c.trust()
	}
	return err
}

// owned reports whether it is this caller's already.
func (c *Guest) owned(who Identity) bool {
	c.guests.mu.Lock()
	defer c.guests.mu.Unlock()
	return c.placed.Load() && c.who == who
}

// identify makes a connection a caller's. One of a higher rank keeps it. moved: it was
// beside the places, and has one now.
func (g *Guests) identify(c *Guest, who Identity) (gone *Guest, moved bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if who.Rank < c.who.Rank || c.closed.Load() {
		return nil, false, nil
	}
	if c.placed.Load() {
		less(g.has, c.who)
		c.who = who
		g.has[who]++
		return nil, false, nil
	}
	was := c.who
	c.who = who
	if g.place(c, &gone) {
		g.beside = slices.DeleteFunc(g.beside, func(one *Guest) bool { return one == c })
		if was.Rank > Stranger {
			g.known--
		}
		return gone, true, nil
	}
	if who.Rank == Stranger || was.Rank > Stranger {
		return nil, false, nil
	}
	if g.has[who] >= max(g.most/2, 1) || g.known >= Beside/2 {
		c.who = was // so it makes room for the next one, though its refusal is under way
		g.full.Add(1)
		g.report()
		return nil, false, ErrShare
	}
	g.known++
	return nil, false, nil
}

// begin counts a request that came through a proxy as its caller's.
func (g *Guests) begin(c *Guest, who Identity) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.counted {
		if c.who == who {
			return nil
		}
		less(g.asks, c.who)
	}
	c.who, c.counted = who, false
	if g.asks[who] >= max(g.most/2, 1) {
		g.full.Add(1)
		g.report()
		return ErrShare
	}
	g.asks[who]++
	c.counted = true
	return nil
}

// trust gives a connection the time that the server asks for.
func (c *Guest) trust() {
	if c.known.Swap(true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked.IsZero() {
		_ = c.Conn.SetReadDeadline(c.asked)
	}
}

// SetReadDeadline sets a shorter deadline for strangers than the server asks for.
func (c *Guest) SetReadDeadline(t time.Time) error {
	if c.known.Load() || c.proxied {
		return c.Conn.SetReadDeadline(t)
	}
	held := strangerIdle
	if !c.placed.Load() {
		held = besideIdle
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = time.Time{}
	if most := time.Now().Add(held); t.After(most) {
		c.asked, t = t, most
	}
	return c.Conn.SetReadDeadline(t)
}

// Close closes the connection and makes room for another.
func (c *Guest) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.guests.mu.Lock()
		c.guests.remove(c)
		if c.counted {
			c.counted = false
			less(c.guests.asks, c.who)
		}
		c.guests.mu.Unlock()
		c.guests.open.Add(-1)
	}
	return c.Conn.Close()
}

type guestKey struct{}

// withGuest puts a connection into the context of its requests.
func withGuest(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*Guest); ok {
		return context.WithValue(ctx, guestKey{}, c)
	}
	return ctx
}

// of is the connection of a request; nil: it came by a listener without Guests.
func of(ctx context.Context) *Guest {
	c, _ := ctx.Value(guestKey{}).(*Guest)
	return c
}

// AddressOf is the address of a request's caller: that of the connection, or the one that a
// trusted proxy names.
func AddressOf(r *http.Request) netip.Addr {
	if c := of(r.Context()); c != nil {
		return c.guests.proxies.Address(c.remote, r.Header["X-Forwarded-For"])
	}
	a, _ := netip.ParseAddrPort(r.RemoteAddr)
	return a.Addr()
}
