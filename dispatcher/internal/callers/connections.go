package callers

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
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
		Handler:           handler(h),
		ReadHeaderTimeout: 5 * time.Second,  // a header is one packet or two
		ReadTimeout:       30 * time.Second, // the 4 MiB of a batch at 140 KiB/s
		WriteTimeout:      AnswerWithin,
		IdleTimeout:       2 * time.Minute, // longer than the usual pools of clients keep theirs
		MaxHeaderBytes:    8 << 10,         // a key, an id and what proxies add; net/http adds 4 KiB
		ConnContext:       withGuest,
		ConnState:         follow,
		ErrorLog:          newServerLog(log),
	}
}

const (
	// strangerIdle is how long a connection may wait for its next request while no
	// request on it had a valid key. That is longer than the usual 10 s between two
	// questions of an orchestrator for /healthz.
	strangerIdle = 15 * time.Second
	// besideIdle is how long a connection beside the places may take for its request.
	besideIdle = 2 * time.Second
	// Beside is how many connections there may be beside the places. So a caller can always
	// show its key, and an orchestrator can always ask for /healthz. Callers that are known,
	// but get no place, take half of these at most.
	Beside = 16
)

// Guests are the connections that are open to a server. There is a place for so many of
// them. Where all places are taken, one that is idle makes room for a new one: first those
// without a key, then those of links, then those of keys. Among equals the caller with the
// most loses the one that was idle longest. No caller makes room for one of a lower rank, or
// for one that has more. A connection that finds no room is served once, beside
// the places, and closed.
type Guests struct {
	most    int
	proxies Proxies
	log     *slog.Logger
	rate    LogRate // of the log

	open                  atomic.Int64
	full, evicted, failed atomic.Int64

	mu     sync.Mutex // guards what follows, and what Guest says
	placed map[*Guest]struct{}
	beside []*Guest         // without a place, the oldest first
	known  int              // of these, how many have said who they are
	has    map[Identity]int // connections of a caller
	asks   map[Identity]int // its requests under way that came through a proxy
}

// New makes places for so many connections. What comes from a proxy belongs to the caller
// that the proxy names.
func New(most int, proxies Proxies, log *slog.Logger) *Guests {
	return &Guests{most: most, proxies: proxies, log: log, placed: map[*Guest]struct{}{}, has: map[Identity]int{}, asks: map[Identity]int{}}
}

// Open is how many connections are open.
func (g *Guests) Open() int64 { return g.open.Load() }

// Refused counts connections that were closed for want of room, or refused; idle ones that
// were closed to make room; and failures of the system to accept.
func (g *Guests) Refused() (full, evicted, failed int64) {
	return g.full.Load(), g.evicted.Load(), g.failed.Load()
}

// Listen accepts from a listener.
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
		ok = g.takeBeside(c, &gone)
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

// place gives a connection a place, if there is one or another makes room: gone, which the
// caller closes.
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
		g.has[c.who]++
	}
	return true
}

// weakest is the idle connection that makes room for another one; nil: none does.
func (g *Guests) weakest(c *Guest) (out *Guest) {
	rank, own := c.who.Rank, g.has[c.who]
	if c.proxied {
		rank, own = Keyed, 0
	}
	var since int64
	for one := range g.placed {
		idle := one.idle.Load()
		if idle == 0 || one.proxied || one.who.Rank > rank || one.who.Rank == rank && one.who != c.who && g.has[one.who] <= own {
			continue
		}
		if out == nil || g.before(one, out, idle, since) {
			out, since = one, idle
		}
	}
	return out
}

// before reports whether one makes room before another, which were idle since.
func (g *Guests) before(one, other *Guest, since, otherSince int64) bool {
	if one.who.Rank != other.who.Rank {
		return one.who.Rank < other.who.Rank
	}
	if a, b := g.has[one.who], g.has[other.who]; a != b {
		return a > b
	}
	return since < otherSince
}

// takeBeside keeps a connection beside the places. The oldest that has not said who it is
// makes room.
func (g *Guests) takeBeside(c *Guest, gone **Guest) bool {
	if len(g.beside) >= Beside {
		for _, one := range g.beside {
			if one.who.Rank == Stranger {
				*gone = one
				break
			}
		}
		if *gone == nil {
			return false
		}
		g.evicted.Add(1)
		g.report()
		g.remove(*gone)
	}
	g.beside = append(g.beside, c)
	return true
}

// remove forgets a connection.
func (g *Guests) remove(c *Guest) {
	if c.placed.Load() {
		delete(g.placed, c)
		c.placed.Store(false)
		if !c.proxied {
			less(g.has, c.who)
		}
		return
	}
	if at := slices.Index(g.beside, c); at >= 0 {
		g.beside = slices.Delete(g.beside, at, at+1)
		if c.who.Rank > Stranger {
			g.known--
		}
	}
}

func less(count map[Identity]int, who Identity) {
	if count[who]--; count[who] <= 0 {
		delete(count, who)
	}
}

// report logs that all connections are taken, once in toldEvery.
func (g *Guests) report() {
	if missed, ok := g.rate.Allow(); ok {
		g.log.Warn("all connections are taken: idle ones make room, and what comes beside is served once and closed",
			"connections", g.most, "missed", missed,
			"cure", "raise MAX_CONNECTIONS, and the limit of file descriptors (ulimit -n) with it")
	}
}
