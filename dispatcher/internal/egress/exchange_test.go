package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// tapped keeps what is written to a connection, write by write.
type tapped struct {
	net.Conn
	writes [][]byte // by the one call
}

func (c *tapped) Write(p []byte) (int, error) {
	c.writes = append(c.writes, bytes.Clone(p))
	return c.Conn.Write(p)
}

// written makes a call, and is what it wrote.
func written(t testing.TB, change func(*dispatcher.Call)) [][]byte {
	t.Helper()
	r := newTestReceiver(t, serve(plainOK))
	tap := &tapped{}
	o := egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "127.0.0.1/32", "fe80::/10")), Resolver: names{"shop.example": {"127.0.0.1"}}}
	c := egress.NewOver(o, func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, r.addr().String())
		tap.Conn = conn
		return tap, err
	})
	defer c.Close()
	call := newTestCall(mustURL(t, "http://shop.example/hook?a=b&c=%20"))
	change(&call)
	a := send(t, c, call)
	require.Equal(t, 200, a.Status, "%v", a.Err)
	return tap.writes
}

func TestRequestGoesOutInOnePiece(t *testing.T) {
	got := written(t, func(c *dispatcher.Call) {
		c.Header = http.Header{
			"Webhook-Id": {"msg_1"}, "Content-Type": {" text/plain \t"}, "X-Twice": {"a", "b"}, "x-lower": {"é"}, "X-Empty": {""},
			// Where a request begins and ends is not for the caller to say.
			"Content-Length": {"1"}, "content-length": {"2"}, "TRANSFER-ENCODING": {"chunked"}, "Host": {"10.1.2.3"}, "hOST": {"x"}, "Trailer": {"x"},
			"Accept-Encoding": {"br"}, "accept-encoding": {"gzip"},
		}
	})
	require.Len(t, got, 1)
	require.Equal(t, "POST /hook?a=b&c=%20 HTTP/1.1\r\n"+
		"Host: shop.example\r\n"+
		"Accept-Encoding: identity\r\n"+
		"Content-Type: text/plain\r\n"+
		"Webhook-Id: msg_1\r\n"+
		"X-Empty: \r\n"+
		"X-Twice: a\r\nX-Twice: b\r\n"+
		"x-lower: é\r\n"+
		"Content-Length: 26\r\n\r\n"+
		`{"n":12345678901234567890}`, string(got[0]))

	got = written(t, func(c *dispatcher.Call) { c.Header, c.Body, c.URL = nil, nil, mustURL(t, "http://shop.example:8080") })
	require.Len(t, got, 1)
	require.Equal(t, "POST / HTTP/1.1\r\nHost: shop.example:8080\r\nAccept-Encoding: identity\r\nContent-Length: 0\r\n\r\n", string(got[0]))

	got = written(t, func(c *dispatcher.Call) { c.URL = mustURL(t, "http://[fe80::1%25eth0]:8080/") })
	require.Contains(t, string(got[0]), "\r\nHost: [fe80::1]:8080\r\n", "the zone is our own affair")

	got = written(t, func(c *dispatcher.Call) { c.Body = bytes.Repeat([]byte("x"), 256<<10) })
	require.Len(t, got, 2)
	require.Len(t, got[0], 16<<10)
}

func TestUserOfTheURLIsTheRequests(t *testing.T) {
	user := func(c *dispatcher.Call) { c.URL.User = url.UserPassword("merchant", "p@ss") }
	got := written(t, func(c *dispatcher.Call) { user(c) })
	require.Contains(t, string(got[0]), "\r\nAuthorization: Basic bWVyY2hhbnQ6cEBzcw==\r\n")
	require.Contains(t, string(got[0]), "POST /hook?")
	got = written(t, func(c *dispatcher.Call) {
		user(c)
		c.Header.Set("Authorization", "Bearer theirs")
	})
	require.Contains(t, string(got[0]), "\r\nAuthorization: Bearer theirs\r\n")
	require.NotContains(t, string(got[0]), "Basic")
}

// TestRequestThatWouldNotBeOneIsNotSent: no text in a header or
// in a URL may end it and begin another.
func TestRequestThatWouldNotBeOneIsNotSent(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	c := newTestClient(t)
	for name, value := range map[string]string{
		"X-A": "a\r\nX-B: b", "X-C": "a\nb", "X-D": "\x00", "X-E": "\x7f", "X F": "a", "X-G:": "a", "": "a", "X-H\r\n": "a", "X-É": "a", "X\tI": "a", "(x)": "a",
	} {
		call := newTestCall(r.url(t))
		call.Header[name] = []string{value}
		a := send(t, c, call)
		require.Equal(t, dispatcher.ClassInternal, a.Class, "%q", name)
		require.ErrorContains(t, a.Err, "header ", "%q", name)
	}
	for _, query := range []string{"a b", "a\r\nX-B: b", "a\tb", "\x7f"} {
		call := newTestCall(r.url(t))
		call.URL.RawQuery = query
		a := send(t, c, call)
		require.Equal(t, dispatcher.ClassInternal, a.Class, "%q", query)
		require.EqualError(t, a.Err, "the URL holds a space or a control character")
	}
	require.Zero(t, r.accepted.Load())
}

// TestLargeRequestKeepsItsConnection, though it is written beside the reading.
func TestLargeRequestKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // else a busy machine could keep the news of its last byte
		h := &hostile{over: make(chan struct{})}
		var running sync.WaitGroup
		c := egress.NewOver(hostileOptions(t), pipes(h.serve, &running))
		for _, scheme := range []string{"http", "https"} {
			for range 3 {
				a := c.Send(t.Context(), row{url: scheme + "://good.test/ok", big: true}.call(t, "443"))
				require.Equal(t, 200, a.Status, "%v", a.Err)
			}
		}
		require.EqualValues(t, 2, h.accepted.Load())
		c.Close()
		running.Wait()
	})
}

// TestBodyIsTheCallersAgain when the call is over, even where the receiver
// answered without having read it: the race detector sees who touches it.
func TestBodyIsTheCallersAgain(t *testing.T) {
	t.Parallel()
	h, port := newTestHostile(t)
	c := egress.New(hostileOptions(t))
	defer c.Close()
	for _, path := range []string{"/early-413", "http://good.test/never-reads", "https://good.test/never-reads", "https://good.test/early-413"} {
		call := row{url: path, big: true}.call(t, port)
		a := sendWithin(t, c, call, brief)
		require.Contains(t, []int{0, 413}, a.Status)
		clear(call.Body)
	}
	close(h.over)
}

// TestCallEndsAfterItsLastWrite, so that the body is not read any more.
func TestCallEndsAfterItsLastWrite(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	r := newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
		<-over // most of the body is not read
	})
	var writing atomic.Int64
	o := egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "127.0.0.1/32"))}
	c := egress.NewOver(o, func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		return &sluggish{conn, &writing}, err
	})
	defer c.Close()
	call := newTestCall(r.url(t))
	call.Body = make([]byte, 8<<20)
	a := send(t, c, call)
	require.Equal(t, 413, a.Status, "%v", a.Err)
	require.Zero(t, writing.Load())
}

// sluggish counts the writes under way, and takes its time where one fails.
type sluggish struct {
	net.Conn
	writing *atomic.Int64
}

func (c *sluggish) Write(p []byte) (int, error) {
	c.writing.Add(1)
	defer c.writing.Add(-1)
	n, err := c.Conn.Write(p)
	if err != nil {
		<-time.After(20 * time.Millisecond)
	}
	return n, err
}

// TestCallIsCalledOffWhateverItWaitsFor, and nothing is left of it.
func TestCallIsCalledOffWhateverItWaitsFor(t *testing.T) {
	silent := func(reached func()) func(*receiver, *net.TCPConn, int) {
		return func(_ *receiver, c *net.TCPConn, _ int) {
			reached()
			_, _ = io.Copy(io.Discard, c)
		}
	}
	after := func(text string) func(func()) func(*receiver, *net.TCPConn, int) {
		return func(reached func()) func(*receiver, *net.TCPConn, int) {
			return func(r *receiver, c *net.TCPConn, _ int) {
				r.request(bufio.NewReader(c))
				_, _ = io.WriteString(c, text)
				reached()
				_, _ = io.Copy(io.Discard, c)
			}
		}
	}
	unread := func(reached func()) func(*receiver, *net.TCPConn, int) {
		return func(_ *receiver, c *net.TCPConn, _ int) {
			_, _ = http.ReadRequest(bufio.NewReaderSize(c, 16))
			reached() // with most of the body not read
			_, _ = io.Copy(io.Discard, c)
		}
	}
	for name, tc := range map[string]struct {
		handle func(reached func()) func(*receiver, *net.TCPConn, int)
		scheme string
		size   int
	}{
		"TLS":          {silent, "https", 1},
		"write":        {unread, "http", 8 << 20},
		"small write":  {unread, "http", 1},
		"answer":       {after(""), "http", 1},
		"announcement": {after("HTTP/1.1 103 Early Hints\r\n\r\n"), "http", 1},
		"header":       {after(okHead + "X-Half: "), "http", 1},
		"large answer": {after(okHead), "http", 8 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			r := newTestReceiver(t, tc.handle(stop))
			call := newTestCall(r.url(t))
			call.URL.Scheme = tc.scheme
			call.Body = make([]byte, tc.size)
			a := newTestClient(t, quickRetries(3)).Send(ctx, call)
			require.ErrorIs(t, a.Err, context.Canceled)
			require.EqualError(t, a.Err, "the attempt was cancelled")
			require.EqualValues(t, 1, r.accepted.Load())
		})
	}
}

func TestCallIsCalledOffInItsDial(t *testing.T) {
	for name, dial := range map[string]func(context.Context) error{
		"that says so":            func(ctx context.Context) error { return ctx.Err() },
		"that has its own words":  func(context.Context) error { return io.ErrClosedPipe },
		"that connects too late":  func(context.Context) error { return nil },
		"that is refused as well": func(context.Context) error { return &net.OpError{Op: "dial", Err: io.EOF} },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ours, theirs := net.Pipe()
			defer theirs.Close()
			c := egress.NewOver(hostileOptions(t), func(ctx context.Context, _, _ string) (net.Conn, error) {
				stop()
				<-ctx.Done()
				return ours, dial(ctx)
			})
			a := c.Send(ctx, row{url: "/ok"}.call(t, "80"))
			require.ErrorIs(t, a.Err, context.Canceled)
			require.Equal(t, dispatcher.ClassInternal, a.Class)
		})
	}
}

// TestAnswerIsCutWhereTheCallIsCalledOff: its status was said.
func TestAnswerIsCutWhereTheCallIsCalledOff(t *testing.T) {
	const half = okHead + "Content-Length: 9\r\n\r\nok"
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := newTestReceiver(t, say(half))
	o := egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "127.0.0.1/32"))}
	c := egress.NewOver(o, func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		return &countingDown{conn, len(half), stop, false}, err
	})
	defer c.Close()
	a := c.Send(ctx, newTestCall(r.url(t)))
	require.Equal(t, 200, a.Status, "%v", a.Err)
	require.Equal(t, "ok", string(a.Body))
	require.True(t, a.Cut)
	r.wait(t)
}

// TestConnectionThatTheEndOfACallMayCutIsNotKept: the next call would be cut by
// the end of this one.
func TestConnectionThatTheEndOfACallMayCutIsNotKept(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := newTestReceiver(t, serve(plainOK))
	o := egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "127.0.0.1/32"))}
	c := egress.NewOver(o, func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		return &countingDown{conn, len(plainOK), stop, true}, err
	})
	defer c.Close()
	a := c.Send(ctx, newTestCall(r.url(t)))
	require.Equal(t, 200, a.Status, "%v", a.Err)
	require.False(t, a.Cut)
	conns, _ := egress.Idle(c)
	require.Zero(t, conns)
	r.wait(t)
}

// countingDown calls done when so many bytes were read: at once, or before the
// next read.
type countingDown struct {
	net.Conn
	left int
	done func()
	soon bool
}

func (c *countingDown) Read(p []byte) (int, error) {
	if c.left == 0 && !c.soon {
		c.done()
	}
	n, err := c.Conn.Read(p)
	c.left -= n
	if c.left == 0 && c.soon {
		c.done()
	}
	return n, err
}
