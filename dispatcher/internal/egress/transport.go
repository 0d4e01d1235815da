package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
)

// transport makes requests over HTTP/1.1, each on the goroutine of its caller. It takes
// an idle connection or opens one, writes, and reads.
//
// The transport of net/http has two goroutines for every connection and passes a request
// and its response between them. That took a third of the time of a cheap delivery.
// net/http still parses the response.
//
// It never retries, because checkRetry decides that. It has no CloseIdleConnections,
// because retryablehttp would call it after each failed call and close the connections of
// all lanes.
type transport struct {
	dialer *dialer
	idle   *pool
}

// errUnasked is the error for a receiver that responds before the request.
var errUnasked = errors.New("it came before the request")

// maxURL is the longest URL of a receiver. A longer Location of a redirect is not
// reported.
const maxURL = 2048

// RoundTrip sends the request of a call and reads the header of its response. It takes
// the headers from the callState, because http.Client would copy those of the request
// each time, in case it follows a redirect.
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
		// http.Client would parse it although it does not follow it, and return an error
		// if it is not a URL.
		if to := resp.Header["Location"]; len(to) > 0 && len(to[0]) <= maxURL {
			s.location = to[0]
		}
		delete(resp.Header, "Location")
	}
	return resp, nil
}

// connect returns an idle connection for a call, or opens a new one. A retry always opens
// a new one: the receiver closed its idle connection, and may have closed others of that
// age.
func (t *transport) connect(s *callState) (*conn, error) {
	u := s.call.URL
	to := target{u.Scheme, u.Host, s.call.Lane, s.call.Linked}
	if !s.repeated {
		for c := t.idle.take(to); c != nil; c = t.idle.take(to) {
			if c.probe() == stateQuiet {
				s.connected, s.reused, s.address = true, true, c.address
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
	s.connected, c.address = true, s.address
	// With TLS there may be bytes that belong to TLS itself.
	if c.wire == c.root && c.raw != nil && c.peek() == stateSpoken {
		c.close()
		return nil, errUnasked
	}
	return c, nil
}

// dial opens a connection to the host of a URL.
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
