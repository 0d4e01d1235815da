package egress_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// safety ends a test that hangs. No test waits for it to pass.
const safety = 2 * time.Minute

// receiver is a far side that does with its connections as it likes.
type receiver struct {
	listener net.Listener
	accepted atomic.Int64 // connections
	requests atomic.Int64 // whole requests that request read
	serving  sync.WaitGroup
	open     sync.WaitGroup // connections; grows while serving does
}

// newTestReceiver listens on loopback and gives each connection to handle,
// which is told how many there were before. The connection is closed after it.
func newTestReceiver(t testing.TB, handle func(r *receiver, c *net.TCPConn, before int)) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &receiver{listener: l}
	r.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			before := int(r.accepted.Add(1)) - 1
			r.open.Go(func() {
				defer c.Close()
				handle(r, c.(*net.TCPConn), before)
			})
		}
	})
	t.Cleanup(func() { r.wait(t) })
	return r
}

// wait stops accepting and returns when no connection is open any more.
func (r *receiver) wait(t testing.TB) {
	t.Helper()
	_ = r.listener.Close()
	done := make(chan struct{})
	go func() {
		r.serving.Wait()
		r.open.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(safety):
		t.Fatal("a connection was left open")
	}
}

func (r *receiver) addr() netip.AddrPort {
	return r.listener.Addr().(*net.TCPAddr).AddrPort()
}

func (r *receiver) url(t testing.TB) *url.URL { return mustURL(t, "http://"+r.addr().String()+"/hook") }

// request reads one whole request, nil at the end of the connection.
func (r *receiver) request(b *bufio.Reader) *http.Request {
	req, err := http.ReadRequest(b)
	if err != nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil
	}
	r.requests.Add(1)
	return req
}

// say answers the first request with text and leaves the connection open until
// the other side closes it.
func say(text string) func(*receiver, *net.TCPConn, int) {
	return func(r *receiver, c *net.TCPConn, _ int) {
		if r.request(bufio.NewReader(c)) == nil {
			return
		}
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c)
	}
}

// reset tears the connection down instead of closing it.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// serve answers every request on a connection with text.
func serve(text string) func(*receiver, *net.TCPConn, int) {
	return func(r *receiver, c *net.TCPConn, _ int) {
		b := bufio.NewReader(c)
		for r.request(b) != nil {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

const plainOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	require.NoError(t, err)
	return u
}

// mustPrefixes reads networks that may be called.
func mustPrefixes(t testing.TB, texts ...string) []egress.Net {
	t.Helper()
	var all []egress.Net
	for _, s := range texts {
		p, err := netip.ParsePrefix(s)
		require.NoError(t, err)
		all = append(all, egress.Net{Prefix: p})
	}
	return all
}

// newTestClient makes a client that may call 127.0.0.1.
func newTestClient(t testing.TB, changes ...func(*egress.Options)) *egress.Client {
	t.Helper()
	o := egress.Options{Guard: egress.NewGuard(mustPrefixes(t, "127.0.0.1/32"))}
	for _, change := range changes {
		change(&o)
	}
	c := egress.New(o)
	t.Cleanup(c.Close)
	return c
}

func quickRetries(n int) func(*egress.Options) {
	return func(o *egress.Options) { o.QuickRetries = n }
}

func newTestCall(u *url.URL) dispatcher.Call {
	return dispatcher.Call{
		URL:    u,
		Header: http.Header{"Content-Type": {"application/json"}, "Webhook-Id": {"msg_1"}},
		Body:   []byte(`{"n":12345678901234567890}`),
	}
}

// send makes a call that must end by itself, long before the test would.
func send(t testing.TB, c *egress.Client, call dispatcher.Call) dispatcher.Answer {
	t.Helper()
	return sendWithin(t, c, call, safety)
}

// sendWithin makes a call that has so much time.
func sendWithin(t testing.TB, c *egress.Client, call dispatcher.Call, limit time.Duration) dispatcher.Answer {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	got := make(chan dispatcher.Answer, 1)
	go func() { got <- c.Send(ctx, call) }()
	select {
	case a := <-got:
		return a
	case <-time.After(limit + safety):
		t.Fatal("the call did not end with its context")
		return dispatcher.Answer{}
	}
}
