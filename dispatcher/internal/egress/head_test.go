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
					require.Equal(t, 200, a.Status, "%v", a.Err)
					if !tc.fine {
						require.Contains(t, a.Unread, "(server response headers exceeded 100 lines)")
						require.Empty(t, a.Body)
					}
				}
				if tc.fine {
					require.EqualValues(t, 1, r.accepted.Load(), "the connection is kept")
				} else {
					require.EqualValues(t, 2, r.accepted.Load(), "no connection is kept")
				}
			})
		}
	}
}

// oddHeaders are headers that are too long, or not valid. What follows the status line does not
// change the status.
var oddHeaders = map[string]string{
	"17 KiB of cookies":               strings.Repeat("Set-Cookie: "+strings.Repeat("c", 1000)+"\r\n", 17) + "Content-Length: 2\r\n",
	"one header of 17,000 bytes":      "Content-Security-Policy: " + strings.Repeat("p", 17000) + "\r\nContent-Length: 2\r\n",
	"105 links":                       strings.Repeat("Link: </a>\r\n", 105) + "Content-Length: 2\r\n",
	"a list of lengths":               "Content-Length: 2, 2\r\n",
	"identity beside a length":        "Transfer-Encoding: identity\r\nContent-Length: 2\r\n",
	"chunked twice":                   "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
	"gzip and chunked":                "Transfer-Encoding: gzip, chunked\r\n",
	"a length below 0":                "Content-Length: -1\r\n",
	"an empty length":                 "Content-Length: \r\n",
	"two lengths":                     "Content-Length: 2\r\nContent-Length: 3\r\n",
	"a length that is no number":      "Content-Length: two\r\n",
	"a line without a colon":          "X-Odd\r\nContent-Length: 2\r\n",
	"an empty name":                   ": odd\r\nContent-Length: 2\r\n",
	"a name that is not ASCII":        "X-\u00e9: odd\r\nContent-Length: 2\r\n",
	"a name with a bracket":           "X-(odd): odd\r\nContent-Length: 2\r\n",
	"a NUL in a value":                "X-Odd: \x00\r\nContent-Length: 2\r\n",
	"a first line that is folded":     " X-Odd: a\r\nContent-Length: 2\r\n",
	"an odd line, and then far more":  "X-Odd\r\n" + strings.Repeat("Link: </a>\r\n", 5000),
	"an odd header after a hint":      "\r\nHTTP/1.1 %d Odd\r\nX-Odd\r\nContent-Length: 2\r\n",
	"as many hints as lines may come": strings.Repeat("Link: </a>\r\n\r\nHTTP/1.1 103 Hint\r\n", 40) + "\r\nHTTP/1.1 %d Odd\r\n" + strings.Repeat("Link: </a>\r\n", 40) + "Content-Length: 2\r\n",
}

// TestStatusCountsWhateverTheHeaderIs: the receiver has said what it did. Called again, it would
// do it twice.
func TestStatusCountsWhateverTheHeaderIs(t *testing.T) {
	for name, header := range oddHeaders {
		for _, w := range ways {
			for _, bytewise := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s way, bytewise %v", name, w.name, bytewise), func(t *testing.T) {
					for _, status := range []int{200, 201, 302, 410, 503} {
						text := fmt.Sprintf("HTTP/1.1 %d Odd\r\n%s\r\nok", status, header)
						if strings.Contains(header, "%d") {
							text = fmt.Sprintf("HTTP/1.1 103 Odd\r\n"+header+"\r\nok", status)
						}
						r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
							for b := bufio.NewReader(c); r.request(b) != nil; {
								var answer io.Reader = strings.NewReader(text)
								if bytewise {
									answer = iotest.OneByteReader(answer)
								}
								_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{answer})
							}
						})
						c := newTestClient(t, quickRetries(3))
						w.take(c)
						for n := range 2 {
							a := send(t, c, newTestCall(r.url(t)))
							require.Equal(t, status, a.Status, "%v", a.Err)
							require.NoError(t, a.Err)
							require.Empty(t, a.Body)
							require.True(t, a.Cut)
							require.Regexp(t, `^the header could not be read \([A-Za-z0-9 -]+\), so neither was the body$`, a.Unread)
							require.EqualValues(t, n+1, r.requests.Load(), "it is called once")
							require.EqualValues(t, n+1, r.accepted.Load(), "the connection is not used again")
						}
						c.Close()
						r.wait(t)
					}
				})
			}
		}
	}
}

// TestStatusOfAHeaderThatBreaksOffIsNone: its receiver may have died within the call.
func TestStatusOfAHeaderThatBreaksOffIsNone(t *testing.T) {
	for _, header := range []string{"", "\r", "\r\n", "\r\nX-Ha", "\r\nX-Half: ", "\r\nX-Half: a\r", "\r\nX-Half: a\r\n", "\r\nX-Half: a\r\n\r"} {
		for _, w := range ways {
			r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
				r.request(bufio.NewReader(c))
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK"+header)
			})
			c := newTestClient(t)
			w.take(c)
			a := send(t, c, newTestCall(r.url(t)))
			require.Zero(t, a.Status, "%q", header)
			require.Error(t, a.Err, "%q", header)
		}
	}
}

// TestStatusLineMustBeWhole: else there is no status that could count.
func TestStatusLineMustBeWhole(t *testing.T) {
	for _, line := range []string{
		"http/1.1 200 OK", "HTTP/2 200 OK", "HTTP/2.0 200 OK", "HTTP/1.2 200 OK", "ICY 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 -20 OK", "HTTP/1.1 +20 OK",
		"HTTP/1.1 200OK", "HTTP/1.1200 OK", "HTTP/1.1\t200 OK", "HTTP/1.1 200\rOK", "HTTP/1.1 099 No", "HTTP/1.1 102 Wait", "", "HTTP/1.1", "HTTP/1.1 ",
	} {
		for _, w := range ways {
			r := newTestReceiver(t, say(line+"\r\nX-Odd\r\n\r\nok"))
			c := newTestClient(t)
			w.take(c)
			a := send(t, c, newTestCall(r.url(t)))
			require.Equal(t, dispatcher.ClassProtocol, a.Class, "%q: %d", line, a.Status)
			c.Close()
			r.wait(t)
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
