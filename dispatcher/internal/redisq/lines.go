package redisq

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// keepAlive finds a line whose other end is gone though nobody asks anything.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// lines are the open connections. Where a machine slept, or something between
// forgot them, all of them may be dead while each looks alive: then one timeout
// must be enough, not one for each of them.
type lines struct {
	born time.Time

	mu   sync.Mutex // guards open
	open map[*line]struct{}
}

func newLines() *lines { return &lines{born: time.Now(), open: map[*line]struct{}{}} }

// line is a connection that knows when it was last heard from.
type line struct {
	net.Conn
	of    *lines
	addr  string
	heard atomic.Int64 // ns from born
}

// dialer makes connections as go-redis' own does, but known to the lines. What
// TLS does lies above them: to close one must not wait for its farewell.
func (l *lines) dialer(within time.Duration, secure *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		raw, err := (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		ln := &line{Conn: raw, of: l, addr: addr}
		ln.heard.Store(int64(time.Since(l.born)))
		l.mu.Lock()
		l.open[ln] = struct{}{}
		l.mu.Unlock()
		if secure == nil {
			return ln, nil
		}
		conn := tls.Client(ln, secure)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = ln.Close() // the handshake's error tells more
			return nil, &net.OpError{Op: "dial", Net: network, Addr: raw.RemoteAddr(), Err: err}
		}
		return conn, nil
	}
}

// cut closes the lines to an address, or to any where that is empty, that were
// not heard from since a call began that got no answer. Calls that use
// one get an error now instead of a timeout later; go-redis makes new ones.
func (l *lines) cut(addr string, began time.Time) {
	since := int64(began.Sub(l.born))
	var silent []*line
	l.mu.Lock()
	for ln := range l.open {
		if (addr == "" || ln.addr == addr) && ln.heard.Load() < since {
			silent = append(silent, ln)
		}
	}
	l.mu.Unlock()
	for _, ln := range silent {
		_ = ln.Close() // dead or not, it is not used any more
	}
}

// Read notes that something was heard.
func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 {
		l.heard.Store(int64(time.Since(l.of.born)))
	}
	return n, err
}

// Close forgets the line.
func (l *line) Close() error {
	l.of.mu.Lock()
	delete(l.of.open, l)
	l.of.mu.Unlock()
	return l.Conn.Close()
}

// SyscallConn lets go-redis look whether an idle connection was closed from the
// other side.
func (l *line) SyscallConn() (syscall.RawConn, error) {
	conn, ok := l.Conn.(syscall.Conn)
	if !ok {
		return nil, net.ErrClosed // neither TCP nor a Unix socket: nothing dials such
	}
	return conn.SyscallConn()
}
