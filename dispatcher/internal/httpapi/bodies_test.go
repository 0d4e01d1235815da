package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// begin sends the head of a batch of n bytes and what of it there is at once.
func begin(t testing.TB, addr, key string, n int, body string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(WaitMost)))
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

// tryBatch returns the status of the response to a batch; 0: there was none. A refused call's connection is reset
// after half a second, and this process may be slower than that.
func tryBatch(addr, key, body string) int {
	r, err := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/messages/batch", strings.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// batchOf is a request of n bytes.
func batchOf(n int) string {
	const one = `{"messages":[{"topic":"a","url":"https://shop.example/","body":"%s"}]}`
	return fmt.Sprintf(one, strings.Repeat("x", n-len(one)+2))
}

func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	addr := newTestServer(t, &Fake{}, WithKeys(t, PublishKey+":publish"))
	const calls = 100
	warm := begin(t, addr, PublishKey, 4<<20, "{")
	before := inUse()
	for range calls {
		begin(t, addr, PublishKey, 4<<20, "{")
	}
	// All are read from: one more is answered after them.
	last := begin(t, addr, PublishKey, 2, "{}")
	require.Equal(t, 422, answerOf(t, last).StatusCode)
	require.Eventually(t, func() bool { return (inUse()-before)/calls < 64<<10 }, WaitMost, 10*time.Millisecond)
	_ = warm.Close()
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAFormTakesFromTheBudgetUntilItIsDone(t *testing.T) {
	b := api.NewBodies(1 << 20)
	read := func(share string, n int) (func(), string, error) {
		r := newTestRequest("POST", "/console/endpoints", "a="+strings.Repeat("x", n))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		release, err := b.Form(httptest.NewRecorder(), r, share, 128<<10)
		return release, r.PostFormValue("a"), err
	}
	var all []func()
	for range 4 {
		release, text, err := read("shop", 100_000)
		all = append(all, release)
		if err != nil {
			require.ErrorIs(t, err, api.ErrNoRoom)
			continue
		}
		require.Len(t, text, 100_000)
	}
	_, _, err := read("shop", 120_000)
	require.ErrorIs(t, err, api.ErrNoRoom, "it has half of the budget")
	_, text, err := read("shop", 10_000)
	require.NoError(t, err, "a small one takes nothing from it")
	require.Len(t, text, 10_000)
	release, _, err := read("other", 100_000)
	require.NoError(t, err)
	release()
	for _, release := range all {
		release()
	}
	_, _, err = read("shop", 120_000)
	require.NoError(t, err)
	var long *http.MaxBytesError
	_, _, err = read("shop", 200_000)
	require.ErrorAs(t, err, &long)
}

func TestBodiesHaveABudgetAndNoKeyHasAllOfIt(t *testing.T) {
	const budget = 1_040_000 // half of it is less than two large bodies, in buffers of any size
	entered, leave := make(chan string), make(chan struct{})
	f := &Fake{OnPublish: func(batch []*dispatcher.Message) ([]dispatcher.Published, error) {
		if len(batch[0].Body) > 100_000 { // holds what it has until it is told
			entered <- batch[0].Topic
			<-leave
		}
		return []dispatcher.Published{Accepted(batch[0])}, nil
	}}
	addr := newTestServer(t, f, WithKeys(t, PublishKey+":publish:shop,"+OtherKey+":publish:other"), func(o *httpapi.Options) { o.Bodies = httpapi.NewBodies(budget, o.Policy.MaxBody) })
	large, small := batchOf(262_000), batchOf(10_000)

	first := begin(t, addr, PublishKey, len(large), large)
	<-entered
	for range 3 {
		second := begin(t, addr, PublishKey, len(large), large)
		resp := answerOf(t, second)
		require.Equal(t, 503, resp.StatusCode, "one key has at most half")
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
		require.NoError(t, err)
		require.Contains(t, string(text), "/problems/overloaded")
	}
	third := begin(t, addr, OtherKey, len(large), large)
	<-entered // the other key's half is its own
	require.Equal(t, 202, answerOf(t, begin(t, addr, PublishKey, len(small), small)).StatusCode, "small ones always find room")
	require.Equal(t, 503, answerOf(t, begin(t, addr, OtherKey, len(large), large)).StatusCode)

	close(leave)
	require.Equal(t, 202, answerOf(t, first).StatusCode)
	require.Equal(t, 202, answerOf(t, third).StatusCode)
	go func() {
		for range 2 {
			<-entered
		}
	}()
	for _, key := range []string{PublishKey, OtherKey} {
		require.Eventually(t, func() bool { // the answer is out a little before the request ends
			return tryBatch(addr, key, large) == 202
		}, WaitMost, time.Millisecond, "what has ended gave its bytes back")
	}
}

func TestABodyThatBreaksOffGivesItsBytesBack(t *testing.T) {
	addr := newTestServer(t, &Fake{}, WithKeys(t, PublishKey+":publish"), func(o *httpapi.Options) { o.Bodies = httpapi.NewBodies(600_000, o.Policy.MaxBody) })
	large := batchOf(200_000)
	for range 10 {
		c := begin(t, addr, PublishKey, len(large), large[:150_000])
		_ = c.(*net.TCPConn).CloseWrite()
		resp := answerOf(t, c)
		require.Contains(t, []int{400, 503}, resp.StatusCode)
		_ = c.Close()
	}
	require.Eventually(t, func() bool {
		return tryBatch(addr, PublishKey, large) == 202
	}, WaitMost, 10*time.Millisecond)
}

func TestABodyOfAnySizeIsReadWhole(t *testing.T) {
	f := &Fake{}
	addr := newTestServer(t, f, WithKeys(t, PublishKey+":publish"))
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
			r.Header.Set("Authorization", "Bearer "+PublishKey)
			resp, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			_ = resp.Body.Close()
			require.Equal(t, 202, resp.StatusCode)
			last := f.Published[len(f.Published)-1]
			require.Contains(t, text, `"body":`+string(last.Body)+`}]}`)
		}
	}
}
