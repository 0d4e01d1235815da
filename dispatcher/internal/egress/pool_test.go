//go:build unix

package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
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

// newTestCrowd is a receiver that answers with the number of the connection,
// and only when as many requests as are wanted at once are there.
func newTestCrowd(t testing.TB, first int) *receiver {
	t.Helper()
	var here sync.WaitGroup
	here.Add(first)
	return newTestReceiver(t, func(r *receiver, c *net.TCPConn, before int) {
		b := bufio.NewReader(c)
		for n := 0; r.request(b) != nil; n++ {
			if n == 0 && before < first {
				here.Done()
				here.Wait()
			}
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", before)
		}
	})
}

// crowd makes calls at once, and returns when all have their answers.
func crowd(t testing.TB, c *egress.Client, u *url.URL, calls int) {
	t.Helper()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if a := send(t, c, newTestCall(u)); a.Status != 200 {
				t.Errorf("status %d: %v", a.Status, a.Err)
			}
		})
	}
	all.Wait()
}

func TestHostKeepsSoManyIdleConnections(t *testing.T) {
	r := newTestCrowd(t, 5)
	c := newTestClient(t, func(o *egress.Options) { o.MaxIdlePerHost = 3 })
	crowd(t, c, r.url(t), 5)
	conns, swept := egress.Idle(c)
	require.Equal(t, 3, conns)
	require.True(t, swept)
	for range 3 {
		send(t, c, newTestCall(r.url(t)))
	}
	require.EqualValues(t, 5, r.accepted.Load())
	c.Close()
	conns, swept = egress.Idle(c)
	require.Zero(t, conns)
	require.False(t, swept, "it costs nothing when there is nothing")
	r.wait(t)
}

func TestNewestIdleConnectionIsUsedFirst(t *testing.T) {
	r := newTestCrowd(t, 3)
	c := newTestClient(t)
	crowd(t, c, r.url(t), 3)
	newest := string(send(t, c, newTestCall(r.url(t))).Body)
	for range 5 {
		require.Equal(t, newest, string(send(t, c, newTestCall(r.url(t))).Body), "the others may expire")
	}
}

func TestOldestIdleConnectionOfAllMakesRoom(t *testing.T) {
	var all []*receiver
	for range 3 {
		all = append(all, newTestReceiver(t, serve(plainOK)))
	}
	c := newTestClient(t)
	egress.KeepAtMost(c, 2)
	for _, n := range []int{0, 1, 2, 2, 1, 0} {
		require.Equal(t, 200, send(t, c, newTestCall(all[n].url(t))).Status)
		conns, _ := egress.Idle(c)
		require.LessOrEqual(t, conns, 2)
	}
	for n, accepted := range []int64{2, 1, 1} {
		require.Equal(t, accepted, all[n].accepted.Load(), "receiver %d", n)
	}
}

func TestSchemesAndPortsShareNoConnections(t *testing.T) {
	h, port := newTestHostile(t)
	o := hostileOptions(t)
	c := egress.New(o)
	defer c.Close()
	for range 2 {
		for _, scheme := range []string{"http", "https"} {
			a := send(t, c, row{url: scheme + "://good.test/ok"}.call(t, port))
			require.Equal(t, 200, a.Status, "%v", a.Err)
		}
	}
	require.EqualValues(t, 2, h.accepted.Load())
}

func TestIdleConnectionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hostile{over: make(chan struct{})}
		var running sync.WaitGroup
		c := egress.NewOver(hostileOptions(t), pipes(h.serve, &running))
		call := func() {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			require.Equal(t, 200, c.Send(ctx, row{url: "/ok"}.call(t, "80")).Status)
		}
		call()
		time.Sleep(59 * time.Second)
		call()
		require.EqualValues(t, 1, h.accepted.Load())
		time.Sleep(59 * time.Second)
		require.EqualValues(t, 1, h.open.Load())
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Zero(t, h.open.Load())
		conns, swept := egress.Idle(c)
		require.Zero(t, conns)
		require.False(t, swept, "it costs nothing when there is nothing")
		call()
		require.EqualValues(t, 2, h.accepted.Load())
		c.Close()
		running.Wait()
	})
}

// TestConnectionThatEndedWhileIdleIsNotUsed: nothing is sent on it, so there is
// nothing to repeat.
func TestConnectionThatEndedWhileIdleIsNotUsed(t *testing.T) {
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			again := make(chan struct{})
			r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, before int) {
				b := bufio.NewReader(c)
				for r.request(b) != nil {
					_, _ = io.WriteString(c, plainOK)
					if before == 0 {
						<-again // else it might end inside the call
						e.do(c)
						_ = c.Close()
						return
					}
				}
			})
			var w watched
			c := w.client(t, egress.Options{})
			require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status)
			close(again)
			arrived(t, w.first())
			a := send(t, c, newTestCall(r.url(t)))
			require.Equal(t, 200, a.Status, "%v", a.Err)
			require.EqualValues(t, 2, r.accepted.Load())
			require.EqualValues(t, 2, r.requests.Load())
		})
	}
}

// TestConnectionThatEndedIsClosedWithoutACall, so that it holds no descriptor
// of ours, nor the receiver's, until somebody calls it again.
func TestConnectionThatEndedIsClosedWithoutACall(t *testing.T) {
	t.Parallel()
	r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		r.request(bufio.NewReader(c))
		_, _ = io.WriteString(c, plainOK)
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	})
	c := newTestClient(t)
	require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status)
	r.wait(t)
	require.Eventually(t, func() bool {
		conns, swept := egress.Idle(c)
		return conns == 0 && !swept
	}, safety, 10*time.Millisecond)
}

// TestConnectionInUseClosesWithItsCall where the client was closed meanwhile.
func TestConnectionInUseClosesWithItsCall(t *testing.T) {
	asked, closed := make(chan struct{}), make(chan struct{})
	r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		b := bufio.NewReader(c)
		r.request(b)
		close(asked)
		<-closed
		_, _ = io.WriteString(c, plainOK)
		_, _ = io.Copy(io.Discard, b)
	})
	c := newTestClient(t)
	go func() {
		<-asked
		c.Close()
		close(closed)
	}()
	require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status)
	r.wait(t)
}

// TestConnectionThatSaysGoodbyeIsNotKept: a receiver may end TLS behind its
// answer, and wait for us to close the rest.
func TestConnectionThatSaysGoodbyeIsNotKept(t *testing.T) {
	t.Parallel()
	certificate := authority().issue("good.test", nil)
	r := newTestReceiver(t, func(r *receiver, raw *net.TCPConn, _ int) {
		tap := &corked{Conn: raw}
		c := tls.Server(tap, &tls.Config{Certificates: []tls.Certificate{certificate}})
		r.request(bufio.NewReader(c))
		tap.cork(true)
		_, _ = io.WriteString(c, plainOK)
		_ = c.CloseWrite()
		_ = raw.SetWriteDeadline(time.Time{}) // CloseWrite has set one
		tap.cork(false)
		_, _ = io.Copy(io.Discard, raw)
	})
	var w watched
	c := w.client(t, egress.Options{RootCAs: authority().pool, Resolver: names{"good.test": {"127.0.0.1"}}})
	a := send(t, c, newTestCall(mustURL(t, "https://good.test:"+r.url(t).Port()+"/hook")))
	require.Equal(t, 200, a.Status, "%v", a.Err)
	r.wait(t)
}

// foreign is an answer to no request.
const foreign = "HTTP/1.1 500 Not Yours\r\nContent-Length: 5\r\n\r\nwrong"

// TestWhatIsSaidUnaskedIsNobodysAnswer: a second answer to one request must
// never pass for that to the next, whichever way it comes.
func TestWhatIsSaidUnaskedIsNobodysAnswer(t *testing.T) {
	certificate := authority().issue("good.test", nil)
	for _, secure := range []bool{false, true} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("TLS %v, late %v", secure, late), func(t *testing.T) {
				again, said := make(chan struct{}), make(chan struct{})
				var requests atomic.Int64
				r := newTestReceiver(t, func(_ *receiver, raw *net.TCPConn, before int) {
					tap := &corked{Conn: raw}
					var c net.Conn = tap
					if secure {
						c = tls.Server(tap, &tls.Config{Certificates: []tls.Certificate{certificate}})
					}
					for b := bufio.NewReader(c); ; {
						req, err := http.ReadRequest(b)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, req.Body)
						requests.Add(1)
						tap.cork(before == 0 && !late) // both in one packet, and in two records
						_, _ = io.WriteString(c, plainOK)
						if before == 0 {
							if late {
								<-again
							}
							_, _ = io.WriteString(c, foreign)
							tap.cork(false)
							close(said)
						}
					}
				})
				var w watched
				c := w.client(t, egress.Options{RootCAs: authority().pool, Resolver: names{"good.test": {"127.0.0.1"}}})
				u := r.url(t)
				if secure {
					u = mustURL(t, "https://good.test:"+u.Port()+"/hook")
				}
				require.Equal(t, 200, send(t, c, newTestCall(u)).Status)
				close(again)
				<-said
				if late {
					arrived(t, w.first())
				}
				for range 2 {
					a := send(t, c, newTestCall(u))
					require.Equal(t, 200, a.Status, "%v", a.Err)
					require.Equal(t, "ok", string(a.Body))
				}
				require.EqualValues(t, 3, requests.Load())
				require.EqualValues(t, 3, r.accepted.Load(), "no connection to it is used again")
				c.Close()
				r.wait(t)
			})
		}
	}
}

// blabs answers each request, and once more the first one of each connection before so many.
func blabs(connections int, accepted *atomic.Int64) func(net.Conn) {
	return func(c net.Conn) {
		defer c.Close()
		number := accepted.Add(1)
		for b := bufio.NewReader(c); ; {
			req, err := http.ReadRequest(b)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			answer := plainOK
			if number <= int64(connections) {
				answer += foreign
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

// TestTargetThatSpokeUnaskedIsCalledOnNewConnectionsForAnHour: a stray answer that comes a moment
// later would pass for the answer to the next request.
func TestTargetThatSpokeUnaskedIsCalledOnNewConnectionsForAnHour(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var accepted atomic.Int64
				var running sync.WaitGroup
				c := egress.NewOver(hostileOptions(t), pipes(blabs(1, &accepted), &running))
				w.take(c)
				call := func(lane dispatcher.Lane, want int64) {
					t.Helper()
					ctx, stop := context.WithTimeout(t.Context(), time.Second)
					defer stop()
					to := row{url: "/ok"}.call(t, "80")
					to.Lane = lane
					a := c.Send(ctx, to)
					require.Equal(t, 200, a.Status, "%v", a.Err)
					require.Equal(t, "ok", string(a.Body))
					require.EqualValues(t, want, accepted.Load())
				}
				call("u_1", 1)
				require.Equal(t, 1, egress.Distrusted(c))
				call("u_1", 2)
				call("u_1", 3)
				call("u_2", 4)
				call("u_2", 4)
				time.Sleep(time.Hour - time.Second)
				call("u_1", 5)
				call("u_1", 6)
				time.Sleep(time.Second)
				call("u_1", 7)
				require.Zero(t, egress.Distrusted(c))
				call("u_1", 7)
				c.Close()
				running.Wait()
			})
		})
	}
}

// TestTargetsThatSpokeUnaskedAreBounded, and the first one is forgotten first.
func TestTargetsThatSpokeUnaskedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accepted atomic.Int64
		var running sync.WaitGroup
		c := egress.NewOver(hostileOptions(t), pipes(blabs(egress.MaxDistrusted+1, &accepted), &running))
		call := func(lane int) {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			to := row{url: "/ok"}.call(t, "80")
			to.Lane = dispatcher.Lane(fmt.Sprintf("u_%d", lane))
			require.Equal(t, 200, c.Send(ctx, to).Status)
		}
		for lane := range egress.MaxDistrusted + 1 {
			call(lane)
			require.LessOrEqual(t, egress.Distrusted(c), egress.MaxDistrusted)
			time.Sleep(time.Millisecond)
		}
		conns, _ := egress.Idle(c)
		require.Zero(t, conns)
		call(1)
		conns, _ = egress.Idle(c)
		require.Zero(t, conns, "the second one is remembered")
		call(0)
		conns, _ = egress.Idle(c)
		require.Equal(t, 1, conns, "the first one is forgotten")
		c.Close()
		running.Wait()
	})
}

// TestStrayAnswerIsNoticedWithoutACall: the sweep finds it.
func TestStrayAnswerIsNoticedWithoutACall(t *testing.T) {
	t.Parallel()
	again := make(chan struct{})
	r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		b := bufio.NewReader(c)
		r.request(b)
		_, _ = io.WriteString(c, plainOK)
		<-again
		_, _ = io.WriteString(c, foreign)
		r.request(b)
	})
	c := newTestClient(t)
	require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status)
	close(again)
	require.Eventually(t, func() bool { return egress.Distrusted(c) == 1 }, safety, 10*time.Millisecond)
	conns, _ := egress.Idle(c)
	require.Zero(t, conns)
}

// TestReceiverThatEndsAnIdleTLSConnectionIsTrusted: the bytes that it writes are not HTTP.
func TestReceiverThatEndsAnIdleTLSConnectionIsTrusted(t *testing.T) {
	t.Parallel()
	certificate := authority().issue("good.test", nil)
	again := make(chan struct{})
	r := newTestReceiver(t, func(r *receiver, raw *net.TCPConn, before int) {
		c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{certificate}})
		for b := bufio.NewReader(c); r.request(b) != nil; {
			_, _ = io.WriteString(c, plainOK)
			if before == 0 {
				<-again
				_ = c.CloseWrite()
				_, _ = io.Copy(io.Discard, raw)
				return
			}
		}
	})
	var w watched
	c := w.client(t, egress.Options{RootCAs: authority().pool, Resolver: names{"good.test": {"127.0.0.1"}}})
	u := mustURL(t, "https://good.test:"+r.url(t).Port()+"/hook")
	require.Equal(t, 200, send(t, c, newTestCall(u)).Status)
	close(again)
	arrived(t, w.first())
	for range 3 {
		require.Equal(t, 200, send(t, c, newTestCall(u)).Status)
	}
	require.Zero(t, egress.Distrusted(c))
	require.EqualValues(t, 2, r.accepted.Load())
	c.Close()
	r.wait(t)
}

// corked keeps back what is written until it is uncorked.
type corked struct {
	net.Conn
	mu   sync.Mutex // guards the rest
	on   bool
	kept []byte
}

func (c *corked) cork(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = on
	if !on && len(c.kept) > 0 {
		_, _ = c.Conn.Write(c.kept)
		c.kept = nil
	}
}

func (c *corked) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on {
		c.kept = append(c.kept, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// TestAnswerBeforeTheRequestIsNone, however good it looks.
func TestAnswerBeforeTheRequestIsNone(t *testing.T) {
	r := newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) {
		_, _ = io.WriteString(c, plainOK)
		_, _ = io.Copy(io.Discard, c)
	})
	var w watched
	c := w.client(t, egress.Options{QuickRetries: 3})
	w.dialled = func(conn *net.TCPConn) { arrived(t, conn) }
	a := send(t, c, newTestCall(r.url(t)))
	require.Equal(t, dispatcher.ClassProtocol, a.Class, "%v", a.Err)
	require.EqualError(t, a.Err, "not a valid answer: it came before the request")
	require.EqualValues(t, 1, r.accepted.Load())
	r.wait(t)
}

// watched keeps the connections that a client opens.
type watched struct {
	dialled func(*net.TCPConn) // nil: nothing is done with a new one

	mu    sync.Mutex // guards conns
	conns []*net.TCPConn
}

func (w *watched) client(t testing.TB, o egress.Options) *egress.Client {
	t.Helper()
	o.Guard = egress.NewGuard(mustPrefixes(t, "127.0.0.1/32"))
	c := egress.NewOver(o, func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conns = append(w.conns, conn.(*net.TCPConn))
		if w.dialled != nil {
			w.dialled(conn.(*net.TCPConn))
		}
		return conn, nil
	})
	t.Cleanup(c.Close)
	return c
}

// first is the first connection.
func (w *watched) first() *net.TCPConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conns[0]
}
