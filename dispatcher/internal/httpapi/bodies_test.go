package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

// waitMost ends a test that hangs.
const waitMost = 2 * time.Minute

// newTestServer serves an API over TCP, as a process does.
func newTestServer(t testing.TB, f service, change ...func(*httpapi.Options)) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s := callers.Server(newTestAPI(t, f, change...), log)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(callers.New(1000, nil, log).Listen(l)) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	return l.Addr().String()
}

// begin sends the head of a batch of n bytes and what of it there is at once.
func begin(t testing.TB, addr, key string, n int, body string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(waitMost)))
	_, err = fmt.Fprintf(c, "POST /v1/messages/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", key, n, body)
	require.NoError(t, err)
	return c
}

func answerOf(t testing.TB, c net.Conn) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	return resp
}

// batchOf is a request of n bytes.
func batchOf(n int) string {
	const one = `{"messages":[{"topic":"a","url":"https://shop.example/","body":"%s"}]}`
	return fmt.Sprintf(one, strings.Repeat("x", n-len(one)+2))
}

const otherKey = "other-key-0123456789ab"

func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	addr := newTestServer(t, &fakeService{}, withKeys(t, publishKey+":publish"))
	const calls = 100
	warm := begin(t, addr, publishKey, 4<<20, "{")
	before := inUse()
	for range calls {
		begin(t, addr, publishKey, 4<<20, "{")
	}
	// All are read from: one more is answered after them.
	last := begin(t, addr, publishKey, 2, "{}")
	require.Equal(t, 422, answerOf(t, last).StatusCode)
	require.Eventually(t, func() bool { return (inUse()-before)/calls < 64<<10 }, waitMost, 10*time.Millisecond)
	_ = warm.Close()
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestBodiesHaveABudgetAndNoKeyHasAllOfIt(t *testing.T) {
	const budget = 1 << 20
	entered, leave := make(chan string), make(chan struct{})
	f := &fakeService{publish: func(batch []*dispatcher.Message) ([]dispatcher.Published, error) {
		if len(batch[0].Body) > 100_000 { // holds what it has until it is told
			entered <- batch[0].Topic
			<-leave
		}
		return []dispatcher.Published{accepted(batch[0])}, nil
	}}
	addr := newTestServer(t, f, withKeys(t, publishKey+":publish:shop,"+otherKey+":publish:other"), func(o *httpapi.Options) { o.Bodies = budget })
	large, small := batchOf(262_000), batchOf(10_000)

	first := begin(t, addr, publishKey, len(large), large)
	<-entered
	for range 3 {
		second := begin(t, addr, publishKey, len(large), large)
		resp := answerOf(t, second)
		require.Equal(t, 503, resp.StatusCode, "one key has at most half")
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
		require.NoError(t, err)
		require.Contains(t, string(text), "/problems/overloaded")
	}
	third := begin(t, addr, otherKey, len(large), large)
	<-entered // the other key's half is its own
	require.Equal(t, 202, answerOf(t, begin(t, addr, publishKey, len(small), small)).StatusCode, "small ones always find room")
	require.Equal(t, 503, answerOf(t, begin(t, addr, otherKey, len(large), large)).StatusCode)

	close(leave)
	require.Equal(t, 202, answerOf(t, first).StatusCode)
	require.Equal(t, 202, answerOf(t, third).StatusCode)
	go func() {
		for range 2 {
			<-entered
		}
	}()
	for _, key := range []string{publishKey, otherKey} {
		require.Eventually(t, func() bool { // the answer is out a little before the request ends
			return answerOf(t, begin(t, addr, key, len(large), large)).StatusCode == 202
		}, waitMost, time.Millisecond, "what has ended gave its bytes back")
	}
}

func TestABodyThatBreaksOffGivesItsBytesBack(t *testing.T) {
	addr := newTestServer(t, &fakeService{}, withKeys(t, publishKey+":publish"), func(o *httpapi.Options) { o.Bodies = 600_000 })
	large := batchOf(200_000)
	for range 10 {
		c := begin(t, addr, publishKey, len(large), large[:150_000])
		_ = c.(*net.TCPConn).CloseWrite()
		resp := answerOf(t, c)
		require.Contains(t, []int{400, 503}, resp.StatusCode)
		_ = c.Close()
	}
	require.Eventually(t, func() bool {
		return answerOf(t, begin(t, addr, publishKey, len(large), large)).StatusCode == 202
	}, waitMost, 10*time.Millisecond)
}

func TestABodyOfAnySizeIsReadWhole(t *testing.T) {
	f := &fakeService{}
	addr := newTestServer(t, f, withKeys(t, publishKey+":publish"))
	for _, n := range []int{100, 16_000, 16_383, 16_384, 16_385, 16_896, 16_897, 33_000, 40_000, 70_000, 140_000, 262_000} {
		for _, chunked := range []bool{false, true} {
			text := batchOf(n)
			var body io.Reader = strings.NewReader(text)
			if chunked {
				body = struct{ io.Reader }{body}
			}
			r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+addr+"/v1/messages/batch", body)
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+publishKey)
			resp, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			_ = resp.Body.Close()
			require.Equal(t, 202, resp.StatusCode)
			last := f.published[len(f.published)-1]
			require.Contains(t, text, `"body":`+string(last.Body)+`}]}`)
		}
	}
}
