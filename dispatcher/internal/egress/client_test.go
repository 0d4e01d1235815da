package egress_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// seen is what a receiver was asked.
type seen struct {
	header http.Header
	body   []byte
	length int64
	coding []string
}

// newTestSink answers every request with 200 and keeps what it was asked.
func newTestSink(t testing.TB) (u *url.URL, asked func() []seen) {
	t.Helper()
	var mu sync.Mutex // guards all
	var all []seen
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, seen{r.Header, body, r.ContentLength, r.TransferEncoding})
	}))
	t.Cleanup(s.Close)
	return mustURL(t, s.URL), func() []seen {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestRequestIsSentAsGiven(t *testing.T) {
	u, asked := newTestSink(t)
	call := newTestCall(u)
	call.Header.Set("User-Agent", "Hookladder/test")
	require.Equal(t, 200, send(t, newTestClient(t), call).Status)
	require.Len(t, asked(), 1)
	got := asked()[0]
	require.Equal(t, call.Body, got.body)
	require.EqualValues(t, len(call.Body), got.length)
	got.header.Del("Content-Length")
	require.Equal(t, call.Header, got.header, "nothing is added, not even accept-encoding")
}

func TestEmptyBodyIsSentWithItsLength(t *testing.T) {
	u, asked := newTestSink(t)
	call := newTestCall(u)
	call.Body = nil
	require.Equal(t, 200, send(t, newTestClient(t), call).Status)
	require.Empty(t, asked()[0].body)
	require.Zero(t, asked()[0].length)
	require.Empty(t, asked()[0].coding)
}

// failing answers nothing the first n times that it is asked, and 200 from then on.
func failing(n int, fail func(*net.TCPConn)) func(*receiver, *net.TCPConn, int) {
	return func(r *receiver, c *net.TCPConn, before int) {
		b := bufio.NewReader(c)
		for r.request(b) != nil {
			if before < n {
				fail(c)
				return
			}
			_, _ = io.WriteString(c, plainOK)
		}
	}
}

func TestFreshConnectionThatIsResetIsTriedAgain(t *testing.T) {
	r := newTestReceiver(t, failing(1, reset))
	require.Equal(t, 200, send(t, newTestClient(t, quickRetries(1)), newTestCall(r.url(t))).Status)
	require.EqualValues(t, 2, r.requests.Load())

	r = newTestReceiver(t, failing(5, reset))
	a := send(t, newTestClient(t, quickRetries(2)), newTestCall(r.url(t)))
	require.Equal(t, dispatcher.ClassReset, a.Class)
	require.EqualValues(t, 3, r.requests.Load(), "once and two quick retries")

	r = newTestReceiver(t, failing(1, reset))
	a = send(t, newTestClient(t, quickRetries(0)), newTestCall(r.url(t)))
	require.Equal(t, dispatcher.ClassReset, a.Class)
	require.EqualValues(t, 1, r.requests.Load())
}

func TestFreshConnectionThatIsClosedIsNotTriedAgain(t *testing.T) {
	r := newTestReceiver(t, failing(1, func(*net.TCPConn) {}))
	a := send(t, newTestClient(t, quickRetries(3)), newTestCall(r.url(t)))
	require.Equal(t, dispatcher.ClassReset, a.Class)
	require.EqualValues(t, 1, r.requests.Load())
}

// answersOnce answers the first request of its first connection and closes
// without a word at the second, as a server does whose idle time ran out.
func answersOnce(r *receiver, c *net.TCPConn, before int) {
	b := bufio.NewReader(c)
	for n := 1; r.request(b) != nil; n++ {
		if before == 0 && n == 2 {
			return
		}
		_, _ = io.WriteString(c, plainOK)
	}
}

// TestReceiverIsAskedAsOftenAsWeDecide: net/http asks again on its own if it
// finds an idempotency key and a connection that was used before.
func TestReceiverIsAskedAsOftenAsWeDecide(t *testing.T) {
	for _, name := range []string{"Webhook-Id", "Idempotency-Key", "X-Idempotency-Key"} {
		for _, body := range []string{`{"n":1}`, ""} {
			for quick, want := range map[int]int64{0: 2, 1: 3} {
				r := newTestReceiver(t, answersOnce)
				c := newTestClient(t, quickRetries(quick))
				call := newTestCall(r.url(t))
				call.Body = []byte(body)
				call.Header[name] = []string{"key_1"}
				shared := call.Header.Clone()
				require.Equal(t, 200, send(t, c, call).Status)
				a := send(t, c, call)
				require.Equal(t, want, r.requests.Load(), "%s, %d quick retries", name, quick)
				if quick == 0 {
					require.Equal(t, dispatcher.ClassReset, a.Class)
				} else {
					require.Equal(t, 200, a.Status)
				}
				require.Equal(t, shared, call.Header, "the caller's header is not changed")
			}
		}
	}
}

func TestIdempotencyKeyReachesTheReceiver(t *testing.T) {
	u, asked := newTestSink(t)
	call := newTestCall(u)
	call.Header.Set("Idempotency-Key", "key_1")
	require.Equal(t, 200, send(t, newTestClient(t), call).Status)
	require.Equal(t, []string{"key_1"}, asked()[0].header["Idempotency-Key"])
}

// TestFailedCallLeavesTheConnectionsOfOthers: retryablehttp would close all
// idle connections after each call that failed.
func TestFailedCallLeavesTheConnectionsOfOthers(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	down, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, down.Close())
	c := newTestClient(t)
	bad := newTestCall(mustURL(t, "http://"+down.Addr().String()))
	for range 50 {
		require.Equal(t, 200, send(t, c, newTestCall(r.url(t))).Status)
		require.Equal(t, dispatcher.ClassConnect, send(t, c, bad).Class)
	}
	require.EqualValues(t, 50, r.requests.Load())
	require.EqualValues(t, 1, r.accepted.Load())
	c.Close()
	r.wait(t)
}

func TestConnectionIsKeptAfterALittleTooMuchAndNotAfterALot(t *testing.T) {
	for extra, connections := range map[int]int64{0: 1, 100: 1, 1 << 20: 3} {
		u, accepted := newTestCounter(t, make([]byte, dispatcher.AnswerLimit+extra))
		c := newTestClient(t)
		for range 3 {
			a := send(t, c, newTestCall(u))
			require.Len(t, a.Body, dispatcher.AnswerLimit)
			require.Equal(t, extra > 0, a.Cut)
		}
		require.Equal(t, connections, accepted(), "%d bytes more", extra)
	}
}

// newTestCounter answers every request with body and counts its connections.
func newTestCounter(t testing.TB, body []byte) (*url.URL, func() int64) {
	t.Helper()
	head := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	r := newTestReceiver(t, serve(head+string(body)))
	return r.url(t), r.accepted.Load
}

// newTestTLS is a sink that speaks TLS, with the pool that trusts it.
func newTestTLS(t testing.TB, change func(*tls.Config)) (*url.URL, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS10}
	if change != nil {
		change(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return mustURL(t, s.URL), pool
}

func trusting(pool *x509.CertPool) func(*egress.Options) {
	return func(o *egress.Options) { o.RootCAs = pool }
}

func TestTLSIsTrustedOrNothingIsSent(t *testing.T) {
	u, pool := newTestTLS(t, nil)
	require.Equal(t, 200, send(t, newTestClient(t, trusting(pool)), newTestCall(u)).Status)

	a := send(t, newTestClient(t, quickRetries(3)), newTestCall(u))
	require.Equal(t, dispatcher.ClassTLS, a.Class, "self-signed")
	require.ErrorContains(t, a.Err, "unknown authority")

	other := newTestClient(t, trusting(pool), known(names{"other.test": {"127.0.0.1"}}))
	a = send(t, other, newTestCall(mustURL(t, "https://other.test:"+u.Port())))
	require.Equal(t, dispatcher.ClassTLS, a.Class, "a certificate for another name")
	require.ErrorContains(t, a.Err, "other.test")

	old, pool := newTestTLS(t, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 })
	a = send(t, newTestClient(t, trusting(pool)), newTestCall(old))
	require.Equal(t, dispatcher.ClassTLS, a.Class, "an old version")

	asking, pool := newTestTLS(t, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
	a = send(t, newTestClient(t, trusting(pool)), newTestCall(asking))
	require.Equal(t, dispatcher.ClassTLS, a.Class, "a client certificate is wanted: %v", a.Err)
}

func TestSchemeThatIsNotSpokenAtThePort(t *testing.T) {
	plain, _ := newTestSink(t)
	plain.Scheme = "https"
	blunt := newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) {
		_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	for _, u := range []*url.URL{plain, mustURL(t, "https://"+blunt.addr().String())} {
		a := send(t, newTestClient(t), newTestCall(u))
		require.Equal(t, dispatcher.ClassTLS, a.Class, "https at an http port: %v", a.Err)
		require.EqualError(t, a.Err, "TLS handshake: the receiver does not speak TLS")
	}

	secure, _ := newTestTLS(t, nil)
	secure.Scheme = "http"
	a := send(t, newTestClient(t), newTestCall(secure))
	require.Equal(t, 400, a.Status, "http at an https port: Go's servers say so")
}

func TestHandshakeThatBreaksOff(t *testing.T) {
	cases := []struct {
		name   string
		handle func(*receiver, *net.TCPConn, int)
		want   dispatcher.Class
		text   string
	}{
		{"closed", func(_ *receiver, c *net.TCPConn, _ int) { _, _ = c.Read(make([]byte, 4096)) }, dispatcher.ClassReset, "the connection was closed during the TLS handshake"},
		{"reset", func(_ *receiver, c *net.TCPConn, _ int) {
			_, _ = c.Read(make([]byte, 4096))
			reset(c)
		}, dispatcher.ClassReset, "the connection was reset during the TLS handshake"},
		{"hangs", func(_ *receiver, c *net.TCPConn, _ int) { _, _ = io.Copy(io.Discard, c) }, dispatcher.ClassTimeout, "the TLS handshake"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newTestReceiver(t, tc.handle)
			u := r.url(t)
			u.Scheme = "https"
			limit := safety
			if tc.want == dispatcher.ClassTimeout {
				limit = brief
			}
			a := sendWithin(t, newTestClient(t), newTestCall(u), limit)
			require.Equal(t, tc.want, a.Class, "%v", a.Err)
			if tc.want == dispatcher.ClassReset {
				require.EqualError(t, a.Err, tc.text)
			}
			r.wait(t)
		})
	}
}

func TestManyCallsAtOnceReuseConnections(t *testing.T) {
	const lane, rounds = 16, 50
	r := newTestReceiver(t, serve(plainOK))
	c := newTestClient(t, func(o *egress.Options) { o.MaxIdlePerHost = lane })
	var callers sync.WaitGroup
	for range lane {
		callers.Go(func() {
			for range rounds {
				a := send(t, c, newTestCall(r.url(t)))
				if a.Status != 200 {
					t.Errorf("status %d, %v", a.Status, a.Err)
				}
			}
		})
	}
	callers.Wait()
	require.EqualValues(t, lane*rounds, r.requests.Load())
	require.LessOrEqual(t, r.accepted.Load(), int64(3*lane), "dials that another connection overtook are few")
	c.Close()
	r.wait(t)
}

func TestTookIsTheWholeCall(t *testing.T) {
	r := newTestReceiver(t, say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"))
	a := sendWithin(t, newTestClient(t), newTestCall(r.url(t)), brief)
	require.GreaterOrEqual(t, a.Took, brief-10*time.Millisecond)
	require.True(t, bytes.Equal([]byte("ok"), a.Body))
}
