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
// hands a request and its answer over between them; where a delivery costs
// little else, that was a third of it. What an answer is, net/http still says.
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
// takes the call from its try: http.Client would copy the headers of a request
// each time, for redirects that it is not to follow.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	try := tryOf(r.Context())
	out, err := newOutgoing(try.call, try.repeated)
	if err != nil {
		return nil, err
	}
	if err := try.Err(); err != nil {
		out.free()
		return nil, context.Cause(try)
	}
	c, err := t.connect(try)
	if err != nil {
		out.free()
		if errors.Is(try.Err(), context.Canceled) { // the dialler may have other words for it
			err = context.Cause(try)
		}
		return nil, err
	}
	x := &exchange{try: try, conn: c, home: t.idle}
	if try.repeated {
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
			try.location = to[0]
		}
		delete(resp.Header, "Location")
	}
	return resp, nil
}

// connect finds a connection for a try. One that is repeated since its
// connection had died of old age takes a new one: where one is dead, others of
// its age may be.
func (t *transport) connect(try *try) (*conn, error) {
	u := try.call.URL
	to := target{u.Scheme, u.Host, try.call.Lane}
	if !try.repeated {
		for c := t.idle.take(to); c != nil; c = t.idle.take(to) {
			if c.listen() == stateQuiet {
				try.got, try.reused = true, true
				return c, nil
			}
			c.close()
		}
	}
	wire, err := t.dial(try, u)
	if exhausted(err) && t.idle.shed() {
		wire, err = t.dial(try, u)
	}
	if err != nil {
		return nil, err
	}
	c := newConn(wire, to)
	try.got = true
	// Under TLS something may well be there, of TLS' own.
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
