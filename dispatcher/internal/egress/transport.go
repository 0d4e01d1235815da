package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
)

// transport makes requests over HTTP/1.1, each on the goroutine that asks for
// it: it opens a connection or takes an idle one, writes, and reads. The
// transport of net/http has two goroutines of its own for every connection, and
// hands a request and its answer over between them. Where a delivery costs
// little else, that was a third of it. The answer is still parsed by net/http.
//
// It repeats nothing: how often a receiver is called is for checkRetry to
// decide. It has no CloseIdleConnections either: retryablehttp would call that
// after each failed call, and close everybody's connections.
type transport struct {
	dialer *dialer
	idle   *pool
}

// errUnasked is for a receiver that answers before it was asked.
var errUnasked = errors.New("it came before the request")

// longestURL is that of a receiver; a redirect to a longer one is told without.
const longestURL = 2048

// RoundTrip sends the request of a call and reads the header of its answer. It
// takes the call from its callState: http.Client would copy the headers of a request
// each time, for redirects that it is not to follow.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	s := callStateOf(r.Context())
	out, err := newOutgoing(s.call, s.repeated)
	if err != nil {
		return nil, err
	}
	if err := s.Err(); err != nil {
		out.free()
		return nil, context.Cause(s)
	}
	c, err := t.connect(s)
	if err != nil {
		out.free()
		if errors.Is(s.Err(), context.Canceled) { // the dialler may report it in another way
			err = context.Cause(s)
		}
		return nil, err
	}
	x := &exchange{state: s, conn: c, home: t.idle}
	if s.repeated {
		x.home = nil
	}
	resp, err := x.do(r, out)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 3 {
		// http.Client would parse it, though it does not follow it, and make an
		// error of one that is no URL.
		if to := resp.Header["Location"]; len(to) > 0 && len(to[0]) <= longestURL {
			s.location = to[0]
		}
		delete(resp.Header, "Location")
	}
	return resp, nil
}

// connect finds a connection for a call: an idle one, or a new one. A call that
// is repeated takes a new one: the receiver closed its idle connection, and may
// have closed others of that age.
func (t *transport) connect(s *callState) (*conn, error) {
	u := s.call.URL
	to := target{u.Scheme, u.Host, s.call.Lane, s.call.Linked}
	if !s.repeated {
		for c := t.idle.take(to); c != nil; c = t.idle.take(to) {
			if c.probe() == stateQuiet {
				s.got, s.reused, s.address = true, true, c.address
				return c, nil
			}
			c.close()
		}
	}
	wire, err := t.dial(s, u)
	if exhausted(err) && t.idle.shed() {
		wire, err = t.dial(s, u)
	}
	if err != nil {
		return nil, err
	}
	c := newConn(wire, to)
	s.got, c.address = true, s.address
	// Under TLS there may be bytes that belong to TLS itself.
	if c.wire == c.root && c.raw != nil && c.peek() == stateSpoken {
		c.close()
		return nil, errUnasked
	}
	return c, nil
}

// dial opens a connection to where a URL points.
func (t *transport) dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	port := u.Port()
	switch {
	case u.Scheme == "https" && port == "":
		port = "443"
	case port == "":
		port = "80"
	}
	address := net.JoinHostPort(u.Hostname(), port)
	if u.Scheme == "https" {
		return t.dialer.dialTLS(ctx, address)
	}
	return t.dialer.open(ctx, address)
}
