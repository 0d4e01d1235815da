package egress

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A ClientHello with a post-quantum key share needs two packets. Some load balancers and
// firewalls read only the first one: they reset the connection, close it, or wait for ever. If a
// handshake ends before the receiver has sent a byte, the next one offers a ClientHello that fits
// one packet. If that is answered, the target gets it for a day.

const (
	// shortFor is how long a target gets the short ClientHello before a long one is tried again.
	shortFor = 24 * time.Hour
	// longFor is how long a target that answered neither gets only the long one. It is down, or
	// slow, and a second connection for each attempt would not help it.
	longFor = time.Hour
	// mostHellos bounds the targets that are remembered, the least recently used is forgotten.
	// Each takes some 200 bytes.
	mostHellos = 1024
)

// newShort returns a configuration whose ClientHello has some 300 bytes. It resumes no sessions,
// because some servers' tickets have more than a KiB.
func newShort(of *tls.Config) *tls.Config {
	c := of.Clone()
	c.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256}
	c.ClientSessionCache = nil
	return c
}

// hello is what is known of a target that did not answer a handshake.
type hello struct {
	short    bool
	answered bool // the short one was
	until    time.Time
}

// hellos remembers how targets (host and port) are greeted.
type hellos struct {
	mu    sync.Mutex // guards known
	known *simplelru.LRU[string, hello]
}

func newHellos() *hellos {
	known, err := simplelru.NewLRU[string, hello](mostHellos, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &hellos{known: known}
}

// of returns what is known of a target. known is false for most targets, which get the long
// ClientHello.
func (h *hellos) of(target string) (found hello, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found, known = h.known.Get(target)
	if known && !time.Now().Before(found.until) {
		h.known.Remove(target)
		return hello{}, false
	}
	return found, known
}

// answered records that a target answered the short ClientHello.
func (h *hellos) answered(target string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if found, _ := h.known.Peek(target); found.short && !found.answered {
		found.answered = true
		h.known.Add(target, found)
	}
}

// unanswered records that a target did not answer. other reports whether the next handshake
// offers another ClientHello.
func (h *hellos) unanswered(target string, short bool) (other bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found, known := h.known.Peek(target)
	switch {
	case !short && !known:
		h.known.Add(target, hello{short: true, until: time.Now().Add(shortFor)})
	case short && found.short && !found.answered:
		h.known.Add(target, hello{until: time.Now().Add(longFor)})
	}
	found, _ = h.known.Peek(target)
	return !short && found.short
}

// unanswered is the error of a handshake that ended before the receiver sent a byte.
type unanswered struct {
	err   error
	short bool // the ClientHello was the short one
	other bool // the next handshake offers the short one
}

func (e *unanswered) Error() string { return e.err.Error() }
func (e *unanswered) Unwrap() error { return e.err }

// hint returns what an attempt's record says beside the cause.
func (e *unanswered) hint() string {
	switch {
	case e.short:
		return ", also after a ClientHello of one packet"
	case e.other:
		return ", before any answer; the next handshake offers a ClientHello of one packet"
	default:
		return ""
	}
}

// listening is a connection that knows whether the other side has sent anything.
type listening struct {
	net.Conn
	heard atomic.Bool
}

func (l *listening) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 && !l.heard.Load() {
		l.heard.Store(true)
	}
	return n, err
}

// NetConn returns the connection below, as that of a tls.Conn does.
func (l *listening) NetConn() net.Conn { return l.Conn }

// hurry ends the reads of a connection on which nothing was heard.
func (l *listening) hurry() {
	if !l.heard.Load() {
		_ = l.SetDeadline(past)
	}
}

// unheard reports whether the other side ended a handshake, or let it time out, and sent nothing.
func (l *listening) unheard(err error) bool {
	return !l.heard.Load() && (broken(err) || closed(err) || late(err))
}
