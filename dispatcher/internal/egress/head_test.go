package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// lines is a header of n lines besides the status.
func lines(n int) string {
	var b strings.Builder
	for i := range n - 1 {
		fmt.Fprintf(&b, "X-%d: a\r\n", i)
	}
	return "HTTP/1.1 200 OK\r\n" + b.String() + "Content-Length: 2\r\n\r\nok"
}

func TestHeaderMayHaveSoManyLines(t *testing.T) {
	const announced = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
	const newlines = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
	for _, tc := range []struct {
		name, answer string
		fine         bool
	}{
		{"as many as it may have", lines(99), true},
		{"one more", lines(100), false},
		{"far more", lines(1000), false},
		{"as many, announced", announced + announced + lines(95), true},
		{"announced, one more", announced + announced + lines(96), false},
		{"lines without a return", strings.ReplaceAll(lines(99), "\r", ""), true},
		{"too many of those", strings.ReplaceAll(lines(100), "\r", ""), false},
		{"lines that are folded", "HTTP/1.1 200 OK\r\nX-A: b\r\n" + strings.Repeat(" c\r\n", 99) + "\r\n", false},
		{"lines of the body", newlines + strings.Repeat("\r\n", 500), true},
	} {
		for _, bytewise := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, bytewise %v", tc.name, bytewise), func(t *testing.T) {
				r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
					for b := bufio.NewReader(c); r.request(b) != nil; {
						var text io.Reader = strings.NewReader(tc.answer)
						if bytewise {
							text = iotest.OneByteReader(text)
						}
						_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{text})
					}
				})
				c := newTestClient(t)
				for range 2 {
					a := send(t, c, newTestCall(r.url(t)))
					if tc.fine {
						require.Equal(t, 200, a.Status, "%v", a.Err)
						continue
					}
					require.Equal(t, dispatcher.ClassProtocol, a.Class, "%v", a.Err)
					require.EqualError(t, a.Err, "not a valid answer: server response headers exceeded 100 lines")
				}
				if tc.fine {
					require.EqualValues(t, 1, r.accepted.Load(), "the connection is kept")
				}
			})
		}
	}
}

// TestHeaderIsGoneBeforeTheBodyIsRead: a body may take as long as the attempt.
func TestHeaderIsGoneBeforeTheBodyIsRead(t *testing.T) {
	const calls = 64
	begun, over := make(chan struct{}, calls), make(chan struct{})
	head := "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Long: "+strings.Repeat("x", 1500)+"\r\n", 10) + "Content-Length: 2\r\n\r\no"
	r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		_ = r.request(bufio.NewReader(c))
		_, _ = io.WriteString(c, head)
		begun <- struct{}{}
		<-over
	})
	c := newTestClient(t)
	before := heap()
	ended := make(chan dispatcher.Answer, calls)
	for range calls {
		go func() { ended <- c.Send(t.Context(), newTestCall(r.url(t))) }()
	}
	for range calls {
		<-begun
	}
	require.Eventually(t, func() bool { return (heap()-before)/calls < 14<<10 }, safety, 1e7, "each call holds far less than its header")
	close(over)
	for range calls {
		require.Equal(t, 200, (<-ended).Status)
	}
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestLongRetryAfterIsNone(t *testing.T) {
	for value, want := range map[string]string{"120": "120", strings.Repeat("1", 65): ""} {
		r := newTestReceiver(t, serve("HTTP/1.1 503 Busy\r\nRetry-After: "+value+"\r\nContent-Length: 0\r\n\r\n"))
		require.Equal(t, want, send(t, newTestClient(t), newTestCall(r.url(t))).RetryAfter)
	}
}

func TestTheDateOfAnAnswerStandsBesideItsRetryAfter(t *testing.T) {
	const date = "Sun, 22 Nov 2026 06:30:00 GMT"
	for headers, want := range map[string]string{"Retry-After: 9\r\nDate: " + date: date, "Date: " + date: "", "Retry-After: 9": "", "Retry-After: 9\r\nDate: " + strings.Repeat("1", 65): ""} {
		r := newTestReceiver(t, serve("HTTP/1.1 503 Busy\r\n"+headers+"\r\nContent-Length: 0\r\n\r\n"))
		require.Equal(t, want, send(t, newTestClient(t), newTestCall(r.url(t))).Date, headers)
	}
}

func TestAReceiverMayRejectADelivery(t *testing.T) {
	for header, want := range map[string]bool{
		"Webhook-Delivery: abort-message": true, "webhook-delivery:  Abort-Message ": true,
		"Webhook-Delivery: abort": false, "Webhook-Delivery: " + strings.Repeat("abort-message", 6): false, "X-Delivery: abort-message": false,
	} {
		r := newTestReceiver(t, serve("HTTP/1.1 400 No\r\n"+header+"\r\nContent-Length: 0\r\n\r\n"))
		require.Equal(t, want, send(t, newTestClient(t), newTestCall(r.url(t))).Rejected, header)
	}
}

// TestLanesShareNoConnection: what a receiver writes unasked in answer to one
// tenant would pass for its answer to another.
func TestLanesShareNoConnection(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	c := newTestClient(t)
	for n, lane := range []dispatcher.Lane{"u_1", "u_2", "u_1", "u_2", "ep_1"} {
		call := newTestCall(r.url(t))
		call.Lane = lane
		require.Equal(t, 200, send(t, c, call).Status)
		require.EqualValues(t, []int{1, 2, 2, 2, 3}[n], r.accepted.Load())
	}
}

func TestConnectionOfAnAnswerThatIsFramedTwiceIsNotKept(t *testing.T) {
	const chunked = "\r\n2\r\nok\r\n0\r\n\r\n"
	for name, answer := range map[string]string{
		"length first":    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n" + chunked,
		"length last":     "HTTP/1.1 200 OK\r\ntransfer-ENCODING: chunked\r\nX-A: b\r\ncontent-length: 12\r\n" + chunked,
		"after a promise": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n" + chunked,
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestReceiver(t, serve(answer))
			c := newTestClient(t)
			for n := range 2 {
				a := send(t, c, newTestCall(r.url(t)))
				require.Equal(t, 200, a.Status, "%v", a.Err)
				require.EqualValues(t, n+1, r.accepted.Load())
			}
		})
	}
	r := newTestReceiver(t, serve("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"+chunked))
	c := newTestClient(t)
	for range 2 {
		require.Equal(t, "ok", string(send(t, c, newTestCall(r.url(t))).Body))
	}
	require.EqualValues(t, 1, r.accepted.Load(), "framed once it is kept")
}

// TestConnectionOfAnAnswerThatCameTooEarlyIsNotKept: an answer that
// comes before the request is written does not belong to it.
func TestConnectionOfAnAnswerThatCameTooEarlyIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		c := egress.NewOver(hostileOptions(t), pipes(func(conn net.Conn) {
			b := bufio.NewReaderSize(conn, 16)
			req, err := http.ReadRequest(b)
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
			time.Sleep(10 * time.Millisecond) // of simulated time
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(conn, "k")
			_, _ = io.Copy(io.Discard, b)
		}, &running))
		a := c.Send(t.Context(), row{url: "/ok", big: true}.call(t, "80"))
		require.Equal(t, 200, a.Status, "%v", a.Err)
		require.Equal(t, "ok", string(a.Body))
		conns, _ := egress.Idle(c)
		require.Zero(t, conns)
		running.Wait()
	})
}
