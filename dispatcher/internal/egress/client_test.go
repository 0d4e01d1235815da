package egress_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"

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
	host   string
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
		all = append(all, seen{r.Header, body, r.ContentLength, r.TransferEncoding, r.Host})
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
	want := call.Header.Clone()
	want.Set("Accept-Encoding", "identity")
	require.Equal(t, want, got.header, "nothing else is added")
}

func TestAnAnswerTellsTheAddressThatWasCalled(t *testing.T) {
	u, _ := newTestSink(t)
	c := newTestClient(t)
	for range 2 { // the second call has the same connection
		require.Equal(t, u.Host, send(t, c, newTestCall(u)).Address)
	}
	closed := httptest.NewServer(nil)
	gone := mustURL(t, closed.URL)
	closed.Close()
	require.Empty(t, send(t, c, newTestCall(gone)).Address)
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
	c := newTestClient(t)
	bad := newTestCall(mustURL(t, "http://127.0.0.1:"+freePort(t)))
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
	require.LessOrEqual(t, r.accepted.Load(), int64(lane*rounds/2), "not each call dials")
	c.Close()
	r.wait(t)
}

func TestTookIsTheWholeCall(t *testing.T) {
	t.Parallel()
	r := newTestReceiver(t, say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"))
	a := sendWithin(t, newTestClient(t), newTestCall(r.url(t)), patient)
	require.Greater(t, a.Took, patient/2, "until the body was given up, and not its beginning")
	require.True(t, bytes.Equal([]byte("ok"), a.Body))
}
