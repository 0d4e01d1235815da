// Package guests bounds what callers without a valid key can take of the process: its
// connections, and the lines of its log.
package guests

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// AnswerWithin bounds reading, waiting for the store, and an answer of a few
// MiB.
const AnswerWithin = time.Minute

// Server makes an HTTP server that slow callers can't hold up. It logs to log.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,  // a header is one packet or two
		ReadTimeout:       30 * time.Second, // the 4 MiB of a batch at 140 KiB/s
		WriteTimeout:      AnswerWithin,
		IdleTimeout:       2 * time.Minute, // longer than the usual pools of clients keep theirs
		MaxHeaderBytes:    8 << 10,         // a key, an id and what proxies add; net/http adds 4 KiB
		ConnContext:       withGuest,
		ErrorLog:          newServerLog(log),
	}
}

// strangerIdle is how long a connection may wait for its next request while no
// request on it had a valid key. That is longer than the usual 10 s between two
// questions of an orchestrator for /healthz.
const strangerIdle = 15 * time.Second

// Guests are the connections that are open to a server, at most so many. A
// stranger is one on which no request had a valid key yet. When all are taken,
// the oldest stranger is closed for a new one, so that strangers only push out
// each other. When no stranger is left, the new connection is closed.
type Guests struct {
	most int
	log  *slog.Logger
	rate LogRate // of the log

	open                    atomic.Int64
	full, strangers, failed atomic.Int64

	mu      sync.Mutex // guards waiting, and the place of each guest in it
	waiting list.List  // of strangers, the oldest first
}

// New makes room for at most so many connections.
func New(most int, log *slog.Logger) *Guests { return &Guests{most: most, log: log} }

// Open is how many connections are open.
func (g *Guests) Open() int64 { return g.open.Load() }

// Refused counts new connections that were closed, strangers that were closed for
// a new one, and failures of the system to accept.
func (g *Guests) Refused() (full, strangers, failed int64) {
	return g.full.Load(), g.strangers.Load(), g.failed.Load()
}

// Listen accepts from a listener.
func (g *Guests) Listen(ln net.Listener) net.Listener { return &guestListener{ln, g} }

type guestListener struct {
	net.Listener
	guests *Guests
}

// Accept waits for the next connection that there is room for.
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

// admit counts a connection, or closes it and returns nil.
func (g *Guests) admit(conn net.Conn) net.Conn {
	if g.open.Load() >= int64(g.most) && !g.makeRoom() {
		g.full.Add(1)
		g.tell()
		_ = conn.Close()
		return nil
	}
	g.open.Add(1)
	c := &Guest{Conn: conn, guests: g}
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
	_ = first.Value.(*Guest).Close()
	return true
}

// tell logs that all connections are taken, once in toldEvery.
func (g *Guests) tell() {
	if missed, ok := g.rate.Allow(); ok {
		g.log.Warn("all connections are taken: strangers make room, and what comes beside is closed",
			"connections", g.most, "missed", missed,
			"cure", "raise MAX_CONNECTIONS, and the limit of file descriptors (ulimit -n) with it")
	}
}

// Guest is one connection.
type Guest struct {
	net.Conn
	guests *Guests

	known  atomic.Bool // a request on it had a valid key
	closed atomic.Bool

	place *list.Element // among the strangers; nil: it is not a stranger; guests.mu guards it
	mu    sync.Mutex    // guards asked
	asked time.Time     // the deadline of the server, where a shorter one is set; zero: there is none
}

// Trust notes that a request had a valid key. Of no guest, it does nothing.
func (c *Guest) Trust() {
	if c == nil || c.known.Load() {
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

// leave removes it from the strangers.
func (c *Guest) leave() {
	c.guests.mu.Lock()
	defer c.guests.mu.Unlock()
	if c.place != nil {
		c.guests.waiting.Remove(c.place)
		c.place = nil
	}
}

// SetReadDeadline sets a shorter deadline for strangers than the server asks for.
func (c *Guest) SetReadDeadline(t time.Time) error {
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

// Close closes the connection and makes room for another.
func (c *Guest) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.leave()
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

// Of is the connection of a request; nil: it came by a listener without Guests.
func Of(ctx context.Context) *Guest {
	c, _ := ctx.Value(guestKey{}).(*Guest)
	return c
}
