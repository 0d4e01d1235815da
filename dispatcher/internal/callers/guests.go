package callers

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// AnswerWithin is the timeout for a response: reading the request, waiting for the store,
// and writing some MiB.
const AnswerWithin = time.Minute

// Server returns an HTTP server with timeouts against slow clients. It logs to log.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler(h),
		ReadHeaderTimeout: 5 * time.Second,  // a header is one or two packets
		ReadTimeout:       30 * time.Second, // the 4 MiB of a batch at 140 KiB/s
		WriteTimeout:      AnswerWithin,
		IdleTimeout:       2 * time.Minute, // longer than the idle timeout of most clients' pools
		MaxHeaderBytes:    8 << 10,         // a key, an id and the headers of proxies; net/http adds 4 KiB
		ConnContext:       withGuest,
		ConnState:         follow,
		ErrorLog:          newServerLog(log),
	}
}

const (
	// strangerIdle is how long a connection may wait for its next request before any
	// request on it had a valid key. It is longer than the usual 10 s between two health
	// checks of an orchestrator.
	strangerIdle = 15 * time.Second
	// strangerReads is how long such a caller may take to read a response.
	strangerReads = 10 * time.Second
	// strangerServed is how long its request is safe from callers of a higher rank.
	strangerServed = time.Second
	// showsKey is how long every request is safe. Its key is checked meanwhile.
	showsKey = 100 * time.Millisecond
	// overflowIdle is how long a connection without a slot may take for its request.
	overflowIdle = 2 * time.Second
	// Overflow is the number of connections without a slot. They exist so that a caller
	// can always send its key, and an orchestrator can always query /healthz. Known
	// callers without a slot take at most half of these.
	Overflow = 16
)

// Guests limits the open connections of a server. There are most slots. If all slots are
// taken, a new connection evicts an idle one: first from strangers, then from links, then
// from keys. Among equals the caller with the most connections loses the one that was
// idle longest.
//
// A request of a stranger is evicted in the same way. A link or a key evicts it when it is
// strangerServed old, and everyone if strangers have requests in more than half of the slots.
// No other request in flight is evicted.
//
// A connection never evicts one of a higher rank, or of a caller with fewer connections.
// A connection without a slot serves one request and is closed. Of these, a new one evicts the
// oldest of the stranger with the most.
type Guests struct {
	most    int
	proxies Proxies
	log     *slog.Logger
	rate    LogRate // of log

	open                  atomic.Int64
	full, evicted, failed atomic.Int64

	mu       sync.Mutex // guards the fields below, and fields of Guest
	placed   map[*Guest]struct{}
	overflow []*Guest         // without a slot, oldest first
	known    int              // how many of overflow have identified themselves
	conns    map[Identity]int // connections, by caller
	requests map[Identity]int // requests in flight through a proxy, by caller
}

// New returns Guests with most slots. A connection from one of the proxies belongs to the
// callers that the proxy names.
func New(most int, proxies Proxies, log *slog.Logger) *Guests {
	return &Guests{most: most, proxies: proxies, log: log, placed: map[*Guest]struct{}{}, conns: map[Identity]int{}, requests: map[Identity]int{}}
}

// Open returns the number of open connections.
func (g *Guests) Open() int64 { return g.open.Load() }

// Refused returns three counts: connections closed or requests refused because all slots
// were taken, connections evicted, and failures of the system to accept.
func (g *Guests) Refused() (full, evicted, failed int64) {
	return g.full.Load(), g.evicted.Load(), g.failed.Load()
}

// Listen returns a listener whose connections are limited.
func (g *Guests) Listen(ln net.Listener) net.Listener { return &guestListener{ln, g} }

type guestListener struct {
	net.Listener
	guests *Guests
}

// Accept waits for the next connection.
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
	c := &Guest{Conn: conn, guests: g}
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		c.remote = a.AddrPort().Addr()
	}
	c.proxied = g.proxies.Trust(c.remote)
	c.who = Address(c.remote)
	c.idle.Store(time.Now().UnixNano())
	g.mu.Lock()
	var gone *Guest
	ok := true
	if !g.place(c, &gone) {
		ok = g.takeOverflow(c, &gone)
	}
	g.mu.Unlock()
	if gone != nil {
		_ = gone.Close()
	}
	if !ok {
		g.full.Add(1)
		g.report()
		_ = conn.Close()
		return nil
	}
	g.open.Add(1)
	return c
}

// place gives a connection a slot if one is free or another connection can be evicted.
// The caller closes that: gone.
func (g *Guests) place(c *Guest, gone **Guest) bool {
	if len(g.placed) >= g.most {
		out := g.weakest(c)
		if out == nil {
			return false
		}
		g.evicted.Add(1)
		g.report()
		g.remove(out)
		*gone = out
	}
	g.placed[c] = struct{}{}
	c.placed.Store(true)
	if !c.proxied {
		g.conns[c.who]++
	}
	return true
}

// half is the number of slots that one caller may have while others want some.
func (g *Guests) half() int { return max(g.most/2, 1) }

// loser is a connection that another one may evict.
type loser struct {
	*Guest
	busy  bool  // it has a request in flight
	since int64 // when that began, or when the connection became idle
}

// weakest returns the connection that is evicted for another one, or nil.
func (g *Guests) weakest(c *Guest) *Guest {
	rank, own := c.who.Rank, g.conns[c.who]
	if c.proxied {
		rank, own = Keyed, 0
	}
	now := time.Now()
	shown, served := now.Add(-showsKey).UnixNano(), now.Add(-strangerServed).UnixNano()
	var out, busy loser // the weakest of all, and of those that only go if strangers have more than half
	requests := 0
	for one := range g.placed {
		l := loser{Guest: one, since: one.idle.Load()}
		if l.since == 0 {
			if one.proxied || one.who.Rank > Stranger {
				continue
			}
			requests++
			if l.busy, l.since = true, one.began.Load(); l.since > shown {
				continue
			}
		}
		if one.proxied || one.who.Rank > rank || one.who.Rank == rank && one.who != c.who && g.conns[one.who] <= own {
			continue
		}
		if l.busy && (rank == Stranger || l.since > served) {
			busy = g.weaker(busy, l)
			continue
		}
		out = g.weaker(out, l)
	}
	if requests > g.half() {
		out = g.weaker(out, busy)
	}
	return out.Guest
}

// weaker returns the connection of two that is evicted first. One may be empty.
func (g *Guests) weaker(a, b loser) loser {
	if b.Guest == nil || a.Guest != nil && g.before(a, b) {
		return a
	}
	return b
}

func (g *Guests) before(one, other loser) bool {
	if one.who.Rank != other.who.Rank {
		return one.who.Rank < other.who.Rank
	}
	if a, b := g.conns[one.who], g.conns[other.who]; a != b {
		return a > b
	}
	if one.busy != other.busy {
		return other.busy
	}
	return one.since < other.since
}

// takeOverflow keeps a connection without a slot. If there are too many, it evicts the oldest
// one of the stranger with the most.
func (g *Guests) takeOverflow(c *Guest, gone **Guest) bool {
	if len(g.overflow) >= Overflow {
		if *gone = g.crowding(c); *gone == nil {
			return false
		}
		g.evicted.Add(1)
		g.report()
		g.remove(*gone)
	}
	g.overflow = append(g.overflow, c)
	return true
}

// crowding returns the oldest connection without a slot of the stranger that has the most of
// them, with the new one. It returns nil if all belong to known callers.
func (g *Guests) crowding(c *Guest) (out *Guest) {
	count := map[Identity]int{c.who: 1}
	for _, one := range g.overflow {
		count[one.who]++
	}
	for _, one := range g.overflow {
		if one.who.Rank == Stranger && (out == nil || count[one.who] > count[out.who]) {
			out = one
		}
	}
	return out
}

// remove removes a connection from the lists.
func (g *Guests) remove(c *Guest) {
	if c.placed.Load() {
		delete(g.placed, c)
		c.placed.Store(false)
		if !c.proxied {
			decrement(g.conns, c.who)
		}
		return
	}
	if at := slices.Index(g.overflow, c); at >= 0 {
		g.overflow = slices.Delete(g.overflow, at, at+1)
		if c.who.Rank > Stranger {
			g.known--
		}
	}
}

func decrement(count map[Identity]int, who Identity) {
	if count[who]--; count[who] <= 0 {
		delete(count, who)
	}
}

// report logs that all connections are taken, once in logEvery.
func (g *Guests) report() {
	if missed, ok := g.rate.Allow(); ok {
		g.log.Warn("all connections are taken: idle ones and those of strangers are evicted, and new ones serve one request",
			"connections", g.most, "missed", missed,
			"cure", "raise MAX_CONNECTIONS, and the limit of file descriptors (ulimit -n) with it")
	}
}

// ErrShare is returned for a request of a caller with half of all connections, or with
// half of the requests in flight, so that others are served.
var ErrShare = errors.New("this caller has half of all connections, and others need them")

// Guest is one connection of a caller.
type Guest struct {
	net.Conn
	guests  *Guests
	remote  netip.Addr
	proxied bool // it comes from a trusted proxy, so its requests belong to different callers

	began  atomic.Int64 // ns since 1970 when the request in flight began
	idle   atomic.Int64 // ns since 1970 when it began to wait for the next request; 0: a request is in flight
	known  atomic.Bool  // a request on it had a valid key or a link
	closed atomic.Bool

	placed atomic.Bool // it has a regular slot; changed under Guests.mu

	// Guests.mu guards these.
	who     Identity // the caller; of a proxied connection, the caller of the request in flight
	counted bool     // Guests.requests counts the request in flight

	mu            sync.Mutex // guards the fields below
	reads, writes time.Time  // the server's deadlines, if shorter ones are set instead; zero: none

	// The request in flight, if it has a body. They are here so that a request allocates neither.
	body     body
	response response
}

// body is the body of a request. It notes its end.
type body struct {
	io.ReadCloser
	ended bool
}

// Read reads the body.
func (b *body) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

// response is the response to a request with a body. If it begins before the end of the body,
// the connection ends with it.
type response struct {
	http.ResponseWriter
	guest *Guest
	begun bool
}

// WriteHeader begins the response.
func (w *response) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write continues the response.
func (w *response) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) begin() {
	if !w.begun && !w.guest.body.ended {
		w.guest.cut(w.ResponseWriter)
	}
	w.begun = true
}

// handler serves the requests of guests. A connection without a slot is closed after its
// first request, unless the request gets it a slot.
func handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := of(r.Context())
		if c == nil {
			h.ServeHTTP(w, r)
			return
		}
		c.began.Store(time.Now().UnixNano())
		c.idle.Store(0)
		if !c.placed.Load() {
			w.Header().Set("Connection", "close")
		}
		if r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		c.body = body{ReadCloser: r.Body}
		c.response = response{ResponseWriter: w, guest: c}
		r.Body = &c.body
		h.ServeHTTP(&c.response, r)
		c.response.begin()
		r.Body = c.body.ReadCloser // net/http looks at its own type
	})
}

// cut ends the connection with the present response. Otherwise net/http would read the rest of
// the request's body first, which takes as long as the caller likes.
func (c *Guest) cut(w http.ResponseWriter) {
	// This tells net/http that the body is too long. It then gives the caller half a second to
	// read the response before the connection is reset.
	_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0).Read(make([]byte, 1))
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// CloseWrite ends the stream of responses. net/http calls it before it waits for a caller whose
// body it does not read. So another connection may have the place.
func (c *Guest) CloseWrite() error {
	c.idle.Store(time.Now().UnixNano())
	if one, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return one.CloseWrite()
	}
	return nil
}

// follow records when a connection has written a response and becomes idle.
func follow(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*Guest); ok && state == http.StateIdle {
		c.idle.Store(time.Now().UnixNano())
		c.end()
	}
}

// end ends a request of a proxied connection.
func (c *Guest) end() {
	if !c.proxied {
		return
	}
	c.guests.mu.Lock()
	defer c.guests.mu.Unlock()
	if c.counted {
		c.counted = false
		decrement(c.guests.requests, c.who)
	}
}

// Identify sets the caller of a request. A connection without a slot gets one if another
// connection can be evicted for this caller. It returns ErrShare if the request must be
// refused. Requests without a Guest are all allowed.
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

// owned reports whether the connection has a slot and belongs to this caller.
func (c *Guest) owned(who Identity) bool {
	c.guests.mu.Lock()
	defer c.guests.mu.Unlock()
	return c.placed.Load() && c.who == who
}

// identify sets the caller of a connection, unless the connection has one of a higher
// rank. moved reports that it got a slot now. The caller closes gone.
func (g *Guests) identify(c *Guest, who Identity) (gone *Guest, moved bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if who.Rank < c.who.Rank || c.closed.Load() {
		return nil, false, nil
	}
	if who.Rank == Stranger && !c.placed.Load() {
		// It found no slot when it connected, and its request adds nothing. The slot that it could
		// get now may be that of a connection whose request was not read yet.
		return nil, false, nil
	}
	if c.placed.Load() {
		decrement(g.conns, c.who)
		c.who = who
		g.conns[who]++
		return nil, false, nil
	}
	was := c.who
	c.who = who
	if g.place(c, &gone) {
		g.overflow = slices.DeleteFunc(g.overflow, func(one *Guest) bool { return one == c })
		if was.Rank > Stranger {
			g.known--
		}
		return gone, true, nil
	}
	if was.Rank > Stranger {
		return nil, false, nil
	}
	if g.conns[who] >= g.half() || g.known >= Overflow/2 {
		c.who = was // so another connection can evict it while its refusal is written
		g.full.Add(1)
		g.report()
		return nil, false, ErrShare
	}
	g.known++
	return nil, false, nil
}

// begin counts a request through a proxy for its caller.
func (g *Guests) begin(c *Guest, who Identity) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.counted {
		if c.who == who {
			return nil
		}
		decrement(g.requests, c.who)
	}
	c.who, c.counted = who, false
	if g.requests[who] >= g.half() {
		g.full.Add(1)
		g.report()
		return ErrShare
	}
	g.requests[who]++
	c.counted = true
	return nil
}

// trust sets the deadlines that the server requested.
func (c *Guest) trust() {
	if c.known.Swap(true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reads.IsZero() {
		_ = c.Conn.SetReadDeadline(c.reads)
	}
	if !c.writes.IsZero() {
		_ = c.Conn.SetWriteDeadline(c.writes)
	}
}

// SetReadDeadline sets a shorter deadline than the server requests while the caller is a
// stranger.
func (c *Guest) SetReadDeadline(t time.Time) error {
	if c.known.Load() || c.proxied {
		return c.Conn.SetReadDeadline(t)
	}
	limit := strangerIdle
	if !c.placed.Load() {
		limit = overflowIdle
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, c.reads = sooner(t, limit)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline sets a shorter deadline than the server requests while the caller is a
// stranger.
func (c *Guest) SetWriteDeadline(t time.Time) error {
	if c.known.Load() || c.proxied {
		return c.Conn.SetWriteDeadline(t)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, c.writes = sooner(t, strangerReads)
	return c.Conn.SetWriteDeadline(t)
}

// sooner returns a deadline that is at most a limit from now. later is the original one if it
// was shortened.
func sooner(t time.Time, limit time.Duration) (deadline, later time.Time) {
	if most := time.Now().Add(limit); t.After(most) {
		return most, t
	}
	return t, time.Time{}
}

// Close closes the connection and frees its slot.
func (c *Guest) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.guests.mu.Lock()
		c.guests.remove(c)
		if c.counted {
			c.counted = false
			decrement(c.guests.requests, c.who)
		}
		c.guests.mu.Unlock()
		c.guests.open.Add(-1)
	}
	return c.Conn.Close()
}

type guestKey struct{}

// withGuest adds a connection to the context of its requests.
func withGuest(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*Guest); ok {
		return context.WithValue(ctx, guestKey{}, c)
	}
	return ctx
}

// of returns the connection of a request; nil: its listener has no Guests.
func of(ctx context.Context) *Guest {
	c, _ := ctx.Value(guestKey{}).(*Guest)
	return c
}

// AddressOf returns the address of a request's caller: the address of the connection, or
// the one from a trusted proxy.
func AddressOf(r *http.Request) netip.Addr {
	if c := of(r.Context()); c != nil {
		return c.guests.proxies.Address(c.remote, r.Header["X-Forwarded-For"])
	}
	a, _ := netip.ParseAddrPort(r.RemoteAddr)
	return a.Addr()
}
