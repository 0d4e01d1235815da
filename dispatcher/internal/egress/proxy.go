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
)

// proxy opens connections through an HTTP proxy.
//
// It is asked by CONNECT, for http and https alike, and for an address that was
// resolved and judged here, never for a name. The proxy would resolve a name once
// more, and a name that resolves to another address each time would make it call
// an address that the guard refuses. A forwarded request (POST
// http://… HTTP/1.1) could not name an address either: a proxy must make the
// Host header out of what it is asked for (RFC 9112, section 3.2.2). Inside the
// tunnel Host, SNI and the certificate's name are those of the URL, and the
// proxy sees nothing of an https request. So it must let CONNECT through to the
// ports in use, 80 among them where http is called. Where the proxy itself is,
// the operator decides: the guard does not judge it.
type proxy struct {
	name string      // scheme, host and port, for errors: there is no user in it
	addr string      // host and port
	tls  *tls.Config // nil: plain
	auth string      // Proxy-Authorization; empty: none
	dial dialFunc
}

// ParseProxy reads the URL of a proxy: http or https, a host, and if need be a
// port, a user and a password. Its errors do not repeat the text, which may
// hold that password.
func ParseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case strings.HasPrefix(u.Scheme, "socks"):
		return nil, errors.New("must begin with http:// or https://: SOCKS is not spoken")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must begin with http:// or https://")
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

// newProxy makes a proxy of what ParseProxy gave, nil of nil.
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
		p.tls.Certificates = nil // ours is for receivers
	}
	p.addr = net.JoinHostPort(u.Hostname(), port)
	p.name = u.Scheme + "://" + p.addr
	if u.User != nil {
		password, _ := u.User.Password()
		p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p
}

// open opens a connection to an address by way of the proxy. Whatever goes wrong
// at the proxy counts as no connection: nothing was sent to the receiver.
func (p *proxy) open(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	conn, err := p.reach(ctx)
	if err != nil {
		return nil, p.fault(&proxyAway{ownDial(err)})
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = p.ask(conn, to)
	if !stop() { // the call is over, and the connection's deadline set for good
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, p.fault(err)
	}
	return conn, nil
}

// proxyAway is why the proxy itself was not reached. No receiver is to blame for that.
type proxyAway struct{ err error }

func (e *proxyAway) Error() string { return e.err.Error() }
func (e *proxyAway) Unwrap() error { return e.err }

// check opens a connection to the proxy, and closes it.
func (p *proxy) check(ctx context.Context) error {
	conn, err := p.reach(ctx)
	if err != nil {
		return p.fault(ownDial(err))
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

// errNoProxy does not repeat what the proxy sent instead.
var errNoProxy = errors.New("does not answer as a proxy does")

// ask sends CONNECT and reads the answer, and not a byte more: what comes next
// is the receiver's.
func (p *proxy) ask(conn net.Conn, to netip.AddrPort) error {
	text := "CONNECT " + to.String() + " HTTP/1.1\r\nHost: " + to.String() + "\r\n"
	if p.auth != "" {
		text += "Proxy-Authorization: " + p.auth + "\r\n"
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		return err
	}
	head := bufio.NewReader(singly{io.LimitReader(conn, maxHeader)})
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

// refusal is what a status means as an answer to CONNECT, nil if it is granted.
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

// fault names the proxy and the cause, without the addresses that the system or
// the resolver put into their text.
func (p *proxy) fault(err error) error {
	var dns *net.DNSError
	var away *proxyAway
	cause := err
	switch {
	case exhausted(err):
	case errors.As(err, &dns) && !dns.IsTimeout:
		cause = errors.New("lookup: " + lookupFault(dns))
	default:
		cause = bare(err)
	}
	if errors.As(err, &away) {
		cause = &proxyAway{cause}
	}
	return &stageError{dispatcher.ClassConnect, "proxy " + p.name, cause}
}

// singly reads byte by byte, so that nothing is read ahead. An answer to
// CONNECT is short, and there is one for each connection.
type singly struct{ r io.Reader }

func (s singly) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), 1)]) }
