package egress

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
)

// transport makes requests over HTTP/1.1, each on the goroutine of its caller. It takes
// an idle connection or opens one, writes, and reads.
//
// There are two ways through it. The short way is for the usual case: a small request, and a
// whole response in one piece, which plainResponse parses. The long way is for everything else,
// and net/http parses its responses. A call takes the long way as soon as a response is not
// plain.
//
// The transport of net/http has two goroutines for every connection and passes a request
// and its response between them. That took a third of the time of a cheap delivery.
//
// It never retries, because checkRetry decides that. It has no CloseIdleConnections,
// because retryablehttp would call it after each failed call and close the connections of
// all lanes.
type transport struct {
	dialer *dialer
	idle   *pool
	long   bool // tests send every call the long way
}

// maxURL is the longest URL of a receiver. A longer Location of a redirect is not
// reported.
const maxURL = 2048

// call makes the first try of a call, and sets its answer.
func (t *transport) call(s *callState) error {
	x, err := t.exchange(s)
	if err != nil {
		return err
	}
	if !t.long && x.plain() {
		return nil
	}
	resp, err := x.answer(nil)
	if err != nil {
		return err
	}
	s.answer = read(resp)
	return nil
}

// RoundTrip makes a try for retryablehttp. The first one was made by call, and only its error
// is returned here. It takes the headers from the callState, because http.Client would copy
// the headers of the request each time, in case it follows a redirect.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	s := callStateOf(r.Context())
	if err := s.first; err != nil {
		s.first = nil
		return nil, err
	}
	x, err := t.exchange(s)
	if err != nil {
		return nil, err
	}
	return x.answer(r)
}

// exchange sends the request of a call, and returns when its response begins.
func (t *transport) exchange(s *callState) (*exchange, error) {
	out, err := newOutgoing(s.call, s.repeated)
	if err != nil {
		return nil, err
	}
	if s.ended() {
		out.free()
		return nil, context.Cause(s)
	}
	for {
		c, err := t.connect(s, out.small())
		if err != nil {
			out.free()
			if errors.Is(s.Err(), context.Canceled) { // the dialler may report it in another way
				err = context.Cause(s)
			}
			return nil, err
		}
		x := &s.exchange
		*x = exchange{state: s, conn: c, home: t.idle}
		if s.repeated {
			x.home = nil
		}
		switch err := x.begin(out); {
		case err == nil:
			return x, nil
		case errors.Is(err, errUnasked):
			t.idle.distrust(c.to)
			return nil, err
		case !errors.Is(err, errStale):
			return nil, err
		case c.found == stateSpoken: // askFD found it, and it has no TLS
			t.idle.distrust(c.to)
		}
		s.connected, s.reused, s.short, s.address = false, false, false, ""
	}
}

// connect returns an idle connection for a call, or opens a new one. A retry always opens
// a new one: the receiver closed its idle connection, and may have closed others of that
// age. A small request is sent by askFD, which probes the connection itself.
func (t *transport) connect(s *callState, small bool) (*conn, error) {
	u := s.call.URL
	to := target{u.Scheme, u.Host, s.call.Lane, s.call.Linked}
	if !s.repeated {
		for c := t.idle.take(to); c != nil; c = t.idle.take(to) {
			found := stateQuiet
			if !small || !c.asks() {
				found = c.probe()
			}
			if found == stateQuiet && c.bind(s) {
				s.connected, s.reused, s.short, s.address = true, true, c.short, c.address
				return c, nil
			}
			t.idle.discard(c, found)
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
	if t.long {
		c.ask = nil
	}
	s.connected, c.short, c.address = true, s.short, s.address
	if !c.bind(s) {
		c.close()
		return nil, cmp.Or(context.Cause(s), net.ErrClosed)
	}
	// With TLS there may be bytes that belong to TLS itself.
	if c.wire == c.root && c.raw != nil && !(small && c.asks()) && c.peek() == stateSpoken {
		t.idle.discard(c, stateSpoken)
		return nil, errUnasked
	}
	return c, nil
}

// dial opens a connection to the host of a URL. It has a context of its own, because the timer
// of the call's context would stay until the response is there.
func (t *transport) dial(s *callState, u *url.URL) (net.Conn, error) {
	ctx := context.Context(s)
	if s.shared != nil {
		end, _ := s.Deadline()
		timed, stop := context.WithDeadline(s.shared, end)
		defer stop()
		ctx = context.WithValue(timed, callStateKey{}, s)
	}
	address := net.JoinHostPort(u.Hostname(), portOf(u))
	if u.Scheme == "https" {
		return t.dialer.dialTLS(ctx, address)
	}
	return t.dialer.open(ctx, address)
}
