package httpapi

import (
	stdlist "container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// strangerIdle is how long a connection may wait for its next request while no
// request on it had a valid key. That is longer than the usual 10 s between two
// questions of an orchestrator for /healthz.
const strangerIdle = 15 * time.Second

// Guests are the connections that are open to a server, at most so many. A
// stranger is one on which no request had a valid key yet. Where all are taken
// the oldest stranger makes room for a new one, so that strangers can only push
// out each other; where none is left, a new one is closed at once.
type Guests struct {
	most int
	log  *slog.Logger
	said seldom

	open                    atomic.Int64
	full, strangers, failed atomic.Int64

	mu      sync.Mutex   // guards waiting, and the place of each guest in it
	waiting stdlist.List // of strangers, the oldest first
}

// NewGuests makes room for at most so many connections.
func NewGuests(most int, log *slog.Logger) *Guests { return &Guests{most: most, log: log} }

// Open is how many connections are open.
func (g *Guests) Open() int64 { return g.open.Load() }

// Refused counts those that were closed since all were taken, strangers that
// made room, and the times the system gave none.
func (g *Guests) Refused() (full, strangers, failed int64) {
	return g.full.Load(), g.strangers.Load(), g.failed.Load()
}

// Listen accepts from a listener.
func (g *Guests) Listen(ln net.Listener) net.Listener { return &guestListener{ln, g} }

type guestListener struct {
	net.Listener
	guests *Guests
}

// Accept waits for the next connection that finds room.
func (l *guestListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.guests.failed.Add(1)
			}
			return nil, err
		}
		if c := l.guests.admit(conn); c != nil {
			return c, nil
		}
	}
}

// admit takes a connection in, or closes it and answers nil.
func (g *Guests) admit(conn net.Conn) net.Conn {
	if g.open.Load() >= int64(g.most) && !g.makeRoom() {
		g.full.Add(1)
		g.tell()
		_ = conn.Close()
		return nil
	}
	g.open.Add(1)
	c := &guest{Conn: conn, guests: g}
	g.mu.Lock()
	c.place = g.waiting.PushBack(c)
	g.mu.Unlock()
	return c
}

// makeRoom closes the oldest stranger, if there is one.
func (g *Guests) makeRoom() bool {
	g.mu.Lock()
	first := g.waiting.Front()
	g.mu.Unlock()
	if first == nil {
		return false
	}
	g.strangers.Add(1)
	g.tell()
	_ = first.Value.(*guest).Close()
	return true
}

// tell says that there is no more room, once in a while.
func (g *Guests) tell() {
	if missed, ok := g.said.say(); ok {
		g.log.Warn("all connections are taken: strangers make room, and what comes beside is closed",
			"connections", g.most, "missed", missed,
			"cure", "raise MAX_CONNECTIONS, and the limit of file descriptors (ulimit -n) with it")
	}
}

// guest is one connection.
type guest struct {
	net.Conn
	guests *Guests
	share  *semaphore.Weighted // of its last request's key; its server's goroutine alone uses it

	known  atomic.Bool // a request on it had a valid key
	closed atomic.Bool

	place *stdlist.Element // among the strangers; nil: it is none; guests.mu guards it
	mu    sync.Mutex       // guards asked
	asked time.Time        // the deadline that was cut; zero: none was
}

// trust notes that a request had a valid key, and the share of that key.
func (c *guest) trust(share *semaphore.Weighted) {
	if c == nil {
		return
	}
	c.share = share
	if c.known.Load() {
		return
	}
	c.known.Store(true)
	c.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked.IsZero() {
		_ = c.Conn.SetReadDeadline(c.asked)
	}
}

// leave takes it out of the strangers.
func (c *guest) leave() {
	c.guests.mu.Lock()
	defer c.guests.mu.Unlock()
	if c.place != nil {
		c.guests.waiting.Remove(c.place)
		c.place = nil
	}
}

// SetReadDeadline gives strangers less time than the server would.
func (c *guest) SetReadDeadline(t time.Time) error {
	if c.known.Load() {
		return c.Conn.SetReadDeadline(t)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = time.Time{}
	if most := time.Now().Add(strangerIdle); t.After(most) {
		c.asked, t = t, most
	}
	return c.Conn.SetReadDeadline(t)
}

// Close closes the connection and gives its place to others.
func (c *guest) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.leave()
		c.guests.open.Add(-1)
	}
	return c.Conn.Close()
}

type guestKey struct{}

// withGuest has requests know their connection.
func withGuest(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*guest); ok {
		return context.WithValue(ctx, guestKey{}, c)
	}
	return ctx
}

// guestOf is the connection of a request; nil: nobody counts it.
func guestOf(ctx context.Context) *guest {
	c, _ := ctx.Value(guestKey{}).(*guest)
	return c
}
