package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// proxy opens connections through an HTTP proxy.
//
// It uses CONNECT for http and https alike, with an address that was resolved and checked
// here, never with a name. The proxy would resolve a name once more, and a name that
// resolves to another address each time would make it call an address that the guard
// refuses. A forwarded request (POST http://… HTTP/1.1) could not name an address either,
// because a proxy must derive the Host header from the request target (RFC 9112, section
// 3.2.2).
//
// Inside the tunnel Host, SNI and the certificate's name are from the URL, and the proxy
// can't read an https request. So the proxy must allow CONNECT to the ports in use,
// including 80 if http is called. The guard does not check the proxy's own address,
// because the operator sets it.
type proxy struct {
	name string      // scheme, host and port, for errors: without the user
	addr string      // host and port
	tls  *tls.Config // nil: a plain connection
	auth string      // Proxy-Authorization; empty: no header
	dial dialFunc
}

// ParseProxy parses the URL of a proxy: http or https, a host, and optionally a port, a
// user and a password. Its errors do not repeat the text, because it may contain the
// password.
func ParseProxy(text string) (*url.URL, error) {
	if strings.HasPrefix(text, "socks") {
		return nil, errors.New("must begin with http:// or https://: SOCKS is not spoken")
	}
	u, err := input.ParseURL(text, "http", "https")
	switch {
	case err != nil:
		return nil, err
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("must end after its port: a proxy has no path")
	case u.User != nil && (u.User.Username() == "" || strings.Contains(u.User.Username(), ":")):
		return nil, errors.New("has a user that is empty or holds a colon")
	}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) || strings.HasSuffix(u.Host, ":") {
		return nil, errors.New("must have a port of 1 to 65535, or none")
	}
	return u, nil
}

// newProxy returns a proxy for a URL from ParseProxy, or nil for nil.
func newProxy(u *url.URL, t *tls.Config) *proxy {
	if u == nil {
		return nil
	}
	var d net.Dialer
	p := &proxy{dial: d.DialContext}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	if u.Scheme == "https" {
		if u.Port() == "" {
			port = "443"
		}
		p.tls = t.Clone()
		p.tls.ServerName = u.Hostname()
		p.tls.Certificates = nil // our certificate is for receivers
	}
	p.addr = net.JoinHostPort(u.Hostname(), port)
	p.name = u.Scheme + "://" + p.addr
	if u.User != nil {
		password, _ := u.User.Password()
		p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p
}

// open opens a connection to an address through the proxy. Any fault at the proxy counts
// as no connection, because nothing was sent to the receiver.
func (p *proxy) open(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	conn, err := p.reach(ctx)
	if err != nil {
		return nil, p.fault(&proxyUnreachable{markDial(err)})
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = p.tunnel(conn, to)
	if !stop() { // the call is over, and the connection's deadline stays set
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, p.fault(err)
	}
	return conn, nil
}

// proxyUnreachable is the error of a connection to the proxy itself. No receiver is to blame for
// it.
type proxyUnreachable struct{ err error }

func (e *proxyUnreachable) Error() string { return e.err.Error() }
func (e *proxyUnreachable) Unwrap() error { return e.err }

// check opens a connection to the proxy, and closes it.
func (p *proxy) check(ctx context.Context) error {
	conn, err := p.reach(ctx)
	if err != nil {
		return p.fault(markDial(err))
	}
	return conn.Close()
}

// reach opens a connection to the proxy itself.
func (p *proxy) reach(ctx context.Context) (net.Conn, error) {
	conn, err := p.dial(ctx, "tcp", p.addr)
	if err != nil || p.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, p.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secure, nil
}

// errNoProxy does not quote the response, because it may contain anything.
var errNoProxy = errors.New("does not answer as a proxy does")

// tunnel sends CONNECT and reads the response, and not a byte more, because the next byte
// is from the receiver.
func (p *proxy) tunnel(conn net.Conn, to netip.AddrPort) error {
	text := "CONNECT " + to.String() + " HTTP/1.1\r\nHost: " + to.String() + "\r\n"
	if p.auth != "" {
		text += "Proxy-Authorization: " + p.auth + "\r\n"
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		return err
	}
	head := bufio.NewReader(byteReader{io.LimitReader(conn, maxHeader)})
	resp, err := http.ReadResponse(head, &http.Request{Method: http.MethodConnect})
	switch {
	case err == nil:
		return refusal(resp.StatusCode)
	case late(err), broken(err):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("closed the connection instead of answering")
	default:
		return errNoProxy
	}
}

// refusal returns the error for a status in response to CONNECT, or nil if it is granted.
func refusal(status int) error {
	switch {
	case status/100 == 2:
		return nil
	case status == http.StatusProxyAuthRequired:
		return errors.New("status 407: it wants another user or password in EGRESS_PROXY")
	case status == http.StatusForbidden || status == http.StatusMethodNotAllowed:
		return fmt.Errorf("status %d: it does not allow CONNECT to this address and port", status)
	default:
		return fmt.Errorf("status %d", status)
	}
}

// fault names the proxy and the cause, without the addresses that the system or the
// resolver put into their text.
func (p *proxy) fault(err error) error {
	var dns *net.DNSError
	var away *proxyUnreachable
	cause := err
	switch {
	case exhausted(err):
	case errors.As(err, &dns) && !dns.IsTimeout:
		cause = errors.New("lookup: " + lookupFault(dns))
	default:
		cause = bare(err)
	}
	if errors.As(err, &away) {
		cause = &proxyUnreachable{cause}
	}
	return &stageError{dispatcher.ClassConnect, "proxy " + p.name, cause}
}

// byteReader reads byte by byte, so that it never reads ahead. A response to CONNECT is
// short, and there is one for each connection.
type byteReader struct{ r io.Reader }

func (s byteReader) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), 1)]) }
