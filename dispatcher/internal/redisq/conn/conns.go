package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// keepAlive detects a connection whose other end is gone, even while no call uses it.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// openConns has the open connections. After a machine slept, or a load balancer forgot
// them, all of them may be dead although each looks alive. Then one timeout must be
// enough to detect all of them.
type openConns struct {
	born time.Time
	made atomic.Int64 // number of connections ever made

	mu   sync.Mutex // guards open
	open map[*openConn]struct{}
}

func newConns() *openConns { return &openConns{born: time.Now(), open: map[*openConn]struct{}{}} }

// DialFunc opens a connection.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// LogInFunc returns the user and the password for a connection.
type LogInFunc func(ctx context.Context) (user, password string, err error)

// openConn is a connection that records when data last came.
type openConn struct {
	net.Conn
	of    *openConns
	addr  string
	heard atomic.Int64 // ns from born
}

// dialer opens connections as go-redis' own dialer does, and records them. TLS is above
// them, so cut closes a connection without TLS' close_notify, which would wait for the
// other end.
func (s *openConns) dialer(dial DialFunc, within time.Duration, secure *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		s.made.Add(1)
		cn := &openConn{Conn: raw, of: s, addr: addr}
		cn.heard.Store(int64(time.Since(s.born)))
		s.mu.Lock()
		s.open[cn] = struct{}{}
		s.mu.Unlock()
		if secure == nil {
			return cn, nil
		}
		encrypted := tls.Client(cn, named(secure, addr))
		if err := encrypted.HandshakeContext(ctx); err != nil {
			_ = cn.Close() // the handshake's error says more
			return nil, &net.OpError{Op: "dial", Net: network, Addr: raw.RemoteAddr(), Err: fmt.Errorf("TLS handshake (does this port speak TLS?): %w", err)}
		}
		return encrypted, nil
	}
}

// named returns the settings of TLS for an address. A sentinel, a master and a node of a cluster
// each have a certificate for their own address. A certificate for the host of the URL is
// accepted, too, because a managed service may report its nodes by other addresses.
func named(secure *tls.Config, addr string) *tls.Config {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == secure.ServerName || secure.InsecureSkipVerify {
		return secure
	}
	own := secure.Clone()
	if net.ParseIP(host) == nil {
		own.ServerName = host
	}
	own.InsecureSkipVerify = true // VerifyConnection verifies in its place
	own.VerifyConnection = func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: secure.RootCAs, DNSName: host, Intermediates: x509.NewCertPool()}
		for _, c := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(c)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		if errors.As(err, &x509.HostnameError{}) {
			options.DNSName = secure.ServerName
			if _, other := state.PeerCertificates[0].Verify(options); other == nil {
				return nil
			}
		}
		return err
	}
	return own
}

// cut closes the connections to an address without data since began, because a call that
// began then got no response. An empty address means all. Other calls on them fail now
// instead of at their timeouts, and go-redis opens new connections.
func (s *openConns) cut(addr string, began time.Time) {
	since := int64(began.Sub(s.born))
	var unheard []*openConn
	s.mu.Lock()
	for cn := range s.open {
		if (addr == "" || cn.addr == addr) && cn.heard.Load() < since {
			unheard = append(unheard, cn)
		}
	}
	s.mu.Unlock()
	for _, cn := range unheard {
		_ = cn.Close() // even a live one is not used any more
	}
}

// Read records when data last came.
func (c *openConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(int64(time.Since(c.of.born)))
	}
	return n, err
}

// Close removes the connection from the list.
func (c *openConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// SyscallConn lets go-redis detect whether the other end closed an idle connection. A connection
// that is neither TCP nor a Unix socket, such as one with its own TLS, can't report that. It counts
// as open, and the next call finds out.
func (c *openConn) SyscallConn() (syscall.RawConn, error) {
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return unknownConn{}, nil
	}
	return raw.SyscallConn()
}

// unknownConn has no file descriptor.
type unknownConn struct{}

func (unknownConn) Control(func(uintptr)) error    { return nil }
func (unknownConn) Read(func(uintptr) bool) error  { return nil }
func (unknownConn) Write(func(uintptr) bool) error { return nil }
