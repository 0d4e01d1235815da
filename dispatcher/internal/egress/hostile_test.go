package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

const (
	// brief is the time of a call that is meant to run out.
	brief = time.Second
	// patient is the same where an answer must have begun by then, on a busy
	// machine too.
	patient = 4 * time.Second
)

// call is the row's. Its URL holds what no error may repeat.
func (r row) call(t testing.TB, port string) dispatcher.Call {
	t.Helper()
	text := r.url
	if strings.HasPrefix(text, "/") {
		text = "http://hostile.test" + text
	}
	u := mustURL(t, text+"?token=hunter2")
	u.User = url.UserPassword("merchant", "hunter2")
	u.Host += ":" + port
	call := newTestCall(u)
	if r.big {
		call.Body = make([]byte, 8<<20)
	}
	return call
}

// judge holds an answer against the row.
func (r row) judge(t testing.TB, a dispatcher.Answer) {
	t.Helper()
	if r.or != "" && a.Class == r.or {
		r.class, r.status, r.body, r.text = r.or, 0, "", torn
	}
	require.Equal(t, r.status, a.Status, "%v", a.Err)
	require.Equal(t, r.class, a.Class, "%v", a.Err)
	require.LessOrEqual(t, len(a.Body), dispatcher.AnswerLimit)
	require.Equal(t, r.cut, a.Cut)
	text := a.Unread
	if r.status != 0 {
		require.NoError(t, a.Err)
		r.judgeBody(t, string(a.Body))
	} else {
		require.Nil(t, a.Body)
		text = a.Err.Error()
	}
	require.Contains(t, text, r.text)
	require.LessOrEqual(t, len(text), 300)
	require.NotContains(t, text, "hunter2", "a secret of the URL's")
	require.NotContains(t, text, "c2lnbmF0dXJl", "what the receiver gives back")
	require.NotContains(t, text, "127.0.0.1")
	require.NotContains(t, text, "\x1b")
	if r.slow && r.status == 0 {
		require.ErrorIs(t, a.Err, context.DeadlineExceeded)
	}
}

// judgeBody compares bodies. How much of one came is chance where it drips, or
// where its connection was torn down.
func (r row) judgeBody(t testing.TB, got string) {
	t.Helper()
	switch {
	case strings.HasPrefix(r.url, "/drip-"):
		require.Equal(t, r.body, got[:min(len(got), len(r.body))])
	case r.url == "/tiny-chunks":
		require.Empty(t, strings.Trim(got, r.body))
	default:
		require.Equal(t, r.body, got)
	}
}

// hostileOptions are those of a client that knows the receiver's names.
func hostileOptions(t testing.TB) egress.Options {
	known := names{"hostile.test": {"127.0.0.1"}}
	for name := range handshakes() {
		known[name] = []string{"127.0.0.1"}
	}
	return egress.Options{
		Guard:        egress.NewGuard(mustPrefixes(t, "127.0.0.1/32")),
		Resolver:     known,
		RootCAs:      authority().pool,
		QuickRetries: 3,
	}
}

// ways are the two ways through this package. The first takes the short one where it may, the
// second never does. A receiver notices no difference.
var ways = []struct {
	name string
	take func(*egress.Client)
}{{"short", func(*egress.Client) {}}, {"long", egress.TakeLongWay}}

// eachWay runs a test for each row and each way.
func eachWay(t *testing.T, test func(t *testing.T, r row, way func(*egress.Client))) {
	t.Helper()
	for _, w := range ways {
		for _, r := range rows() {
			t.Run(w.name+"/"+strings.TrimPrefix(r.url, "/"), func(t *testing.T) { test(t, r, w.take) })
		}
	}
}

// TestHostileReceiver: whatever a receiver does ends as one answer, of one
// request, and leaves no connection open.
func TestHostileReceiver(t *testing.T) {
	t.Parallel()
	for _, r := range rows() {
		t.Run(strings.TrimPrefix(r.url, "/"), func(t *testing.T) {
			t.Parallel()
			short, long := r.try(t, ways[0].take), r.try(t, ways[1].take)
			short(t)
			long(t)
		})
	}
}

// try begins the row's call. The function that it returns waits for the answer and judges it.
func (r row) try(t *testing.T, way func(*egress.Client)) (judge func(*testing.T)) {
	t.Helper()
	h, port := newTestHostile(t)
	c := egress.New(hostileOptions(t))
	way(c)
	limit := safety
	switch {
	case r.slow && r.status != 0:
		limit = patient
	case r.slow:
		limit = brief
		r.text = "timed out" // how far it came by then is the machine's affair here
	}
	answered := make(chan dispatcher.Answer, 1)
	call := r.call(t, port)
	go func() {
		ctx := wait.NewUntil(context.Background(), time.Now().Add(limit))
		defer ctx.Stop()
		answered <- c.Send(ctx, call)
	}()
	return func(t *testing.T) {
		t.Helper()
		defer c.Close()
		var a dispatcher.Answer
		select {
		case a = <-answered:
		case <-time.After(limit + safety):
			t.Fatal("the call did not end with its context")
		}
		close(h.over)
		r.judge(t, a)
		if !r.again {
			require.LessOrEqual(t, h.accepted.Load(), int64(1), "an answer is not asked for twice")
		}
		require.LessOrEqual(t, h.requests.Load(), int64(1), "an answer is not asked for twice")
		if r.kept {
			require.EqualValues(t, 1, h.open.Load())
			c.Close()
		}
		require.Eventually(t, func() bool { return h.open.Load() == 0 }, safety, time.Millisecond, "a connection was left open")
	}
}

// TestHostileReceiverIsBoundedInTimeAndBytes does the same where time is
// simulated and the wire holds nothing, so that both are exact. That it ends at
// all shows that no goroutine is left either.
func TestHostileReceiverIsBoundedInTimeAndBytes(t *testing.T) {
	eachWay(t, func(t *testing.T, r row, way func(*egress.Client)) {
		synctest.Test(t, func(t *testing.T) {
			h := &hostile{over: make(chan struct{})}
			r.bounded(t, h, h.serve, hostileOptions(t), way)
		})
	})
}

// TestHostileReceiverBehindAProxy: a tunnel changes nothing of that.
func TestHostileReceiverBehindAProxy(t *testing.T) {
	eachWay(t, func(t *testing.T, r row, way func(*egress.Client)) {
		synctest.Test(t, func(t *testing.T) {
			h := &hostile{over: make(chan struct{})}
			o := hostileOptions(t)
			o.Proxy = mustURL(t, "http://proxy.test:3128")
			r.bounded(t, h, func(c net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, "HTTP/1.1 200 Connected\r\n\r\n")
				}
				h.serve(c)
			}, o, way)
		})
	})
}

// bounded makes the row's call in memory and in simulated time.
func (r row) bounded(t *testing.T, h *hostile, serve func(net.Conn), o egress.Options, way func(*egress.Client)) {
	t.Helper()
	const limit = 15 * time.Second
	// most is the header's and the body's limit, and what is read ahead of them
	// or comes with it: buffers, a handshake, frames.
	const most = 64<<10 + dispatcher.AnswerLimit + 32<<10
	var running sync.WaitGroup
	c := egress.NewOver(o, pipes(serve, &running))
	way(c)
	ctx := wait.NewUntil(t.Context(), time.Now().Add(limit))
	defer ctx.Stop()
	a := c.Send(ctx, r.call(t, "443"))
	close(h.over)
	if r.slow {
		require.Equal(t, limit, a.Took)
	} else {
		require.Less(t, a.Took, time.Second)
	}
	r.judge(t, a)
	c.Close()
	running.Wait()
	require.Zero(t, h.open.Load())
	require.LessOrEqual(t, h.wrote.Load(), int64(most))
}

// TestHoardedConnectionsAreLetGo: a receiver that keeps every connection busy
// gets no more of them than there are calls.
func TestHoardedConnectionsAreLetGo(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/hang-body", "/infinite", "/101", "/one-more"} {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			t.Parallel()
			h, port := newTestHostile(t)
			c := egress.New(hostileOptions(t))
			defer c.Close()
			var calls sync.WaitGroup
			for range 20 {
				calls.Go(func() { sendWithin(t, c, row{url: path}.call(t, port), brief) })
			}
			calls.Wait()
			require.LessOrEqual(t, h.accepted.Load(), int64(20))
			require.Eventually(t, func() bool {
				c.Close() // what is idle: a call may have ended before its connection was there
				return h.open.Load() == 0
			}, safety, time.Millisecond)
		})
	}
}

// TestCookiesAreNotKept nor is anything else that one answer says for the next call.
func TestCookiesAreNotKept(t *testing.T) {
	var asked []string
	r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		for b := bufio.NewReader(c); ; {
			req := r.request(b)
			if req == nil {
				return
			}
			asked = append(asked, req.Header.Get("Cookie")+req.Header.Get("Authorization"))
			_, _ = io.WriteString(c, "HTTP/1.1 401 No\r\nSet-Cookie: session=1\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
		}
	})
	c := newTestClient(t)
	for range 3 {
		require.Equal(t, 401, send(t, c, newTestCall(r.url(t))).Status)
	}
	c.Close()
	r.wait(t)
	require.Equal(t, []string{"", "", ""}, asked)
}

// TestMain fails where the tests together leave a call behind that goes on.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftBehind(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "calls go on after the last test:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leftBehind is the goroutines of calls, after it waited for them to end.
func leftBehind() string {
	for end := time.Now().Add(safety); ; time.Sleep(5 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		all := string(stacks[:runtime.Stack(stacks, true)])
		switch {
		case !strings.Contains(all, "egress.(*exchange)") && !strings.Contains(all, "egress.(*dialer)"):
			return ""
		case time.Now().After(end):
			return all
		}
	}
}
