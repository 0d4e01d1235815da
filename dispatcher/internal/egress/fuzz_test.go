package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// FuzzExchange has a receiver answer any bytes, in two pieces, and then close
// the connection or stay. Whatever it says: one attempt, bounded in time and
// bytes, and its connection serves another call only after a whole answer.
func FuzzExchange(f *testing.F) {
	for _, answer := range []string{
		"", "\n", "\r\n\r\n", "H", "HTTP/1.1", "HTTP/1.1 200 OK\r\n", okHead, okHead + "\r\n", plainOK, plainOK + plainOK, plainOK + "x", plainOK[:40],
		"HTTP/1.0 200 OK\r\n\r\nok", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n" + plainOK, "HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 103 Early\r\n\r\n", "HTTP/1.1 099 No\r\n\r\n", "HTTP/1.1 999 Yes\r\nContent-Length: 0\r\n\r\n",
		okHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", okHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Trailer: a\r\n\r\n",
		okHead + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nok", okHead + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 5000) + "\r\nok\r\n0\r\n\r\n",
		okHead + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n", okHead + "Transfer-Encoding: gzip\r\n\r\nok",
		okHead + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", okHead + "Content-Length: -1\r\n\r\n", okHead + "Content-Length: 99999999999999999999\r\n\r\n",
		okHead + "Content-Length: 70000\r\n\r\n" + strings.Repeat("x", 70000), okHead + "Connection: close\r\nContent-Length: 2\r\n\r\nok",
		okHead + "Location: ://\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n",
		okHead + "Content-Length: 2, 2\r\n\r\nok", okHead + "Odd\r\n\r\nok", okHead + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", okHead + "Content-Encoding: deflate\r\nContent-Length: 4\r\n\r\nK\xce\x06\x00",
		"HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n", lines(101), lines(5000), okHead + "X: " + strings.Repeat("x", 17<<10) + "\r\n\r\n",
		"HTTP/2.0 200 OK\r\n\r\n", "\x00\x00\x12\x04\x00\x00\x00\x00\x00", "\x15\x03\x01\x00\x02\x02\x28", "SSH-2.0-x\r\n",
	} {
		f.Add([]byte(answer), uint16(17), true)
		f.Add([]byte(answer), uint16(0), false)
	}
	f.Fuzz(func(t *testing.T, answer []byte, cut uint16, stays bool) {
		if len(answer) > 128<<10 {
			return // longer than anything that is read
		}
		var results [2]result
		for i, w := range ways {
			synctest.Test(t, func(t *testing.T) { results[i] = exchange(t, answer, min(int(cut), len(answer)), stays, w.take) })
		}
		require.Equal(t, results[1], results[0], "both ways return the same")
	})
}

// result is what the two ways have in common. Text and time may differ by chance.
type result struct {
	status                     int
	class                      dispatcher.Class
	body, unread, retry, moved string
	cut, rejected, kept        bool
}

func exchange(t *testing.T, answer []byte, cut int, stays bool, way func(*egress.Client)) result {
	const limit = 2 * time.Second
	var accepted, asked atomic.Int64
	var running sync.WaitGroup
	c := egress.NewOver(hostileOptions(t), pipes(func(conn net.Conn) {
		defer conn.Close()
		first := accepted.Add(1) == 1
		for b := bufio.NewReader(conn); ; {
			req, err := http.ReadRequest(b)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if asked.Add(1) > 1 || !first {
				_, _ = io.WriteString(conn, plainOK)
				continue
			}
			_, _ = conn.Write(answer[:cut])
			_, _ = conn.Write(answer[cut:])
			if !stays {
				return
			}
		}
	}, &running))
	way(c)
	call := func(lane dispatcher.Lane) dispatcher.Answer {
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		to := row{url: "/ok"}.call(t, "80")
		to.Lane = lane
		return c.Send(ctx, to)
	}
	a := call("u_1")
	require.EqualValues(t, 1, accepted.Load(), "one attempt")
	require.LessOrEqual(t, a.Took, limit+time.Second)
	require.LessOrEqual(t, cap(a.Body), 2*dispatcher.AnswerLimit)
	require.LessOrEqual(t, len(a.Body), dispatcher.AnswerLimit)
	require.Equal(t, a.Status == 0, a.Class != dispatcher.ClassNone)
	require.Equal(t, a.Status == 0, a.Err != nil)
	if a.Err != nil {
		require.LessOrEqual(t, len(a.Err.Error()), 400)
	}
	synctest.Wait()
	kept, _ := egress.Idle(c)
	if kept > 0 {
		require.True(t, whole(answer), "its connection was kept")
	}
	before := accepted.Load()
	require.Equal(t, 200, call("u_2").Status)
	require.Equal(t, before+1, accepted.Load(), "another lane has a connection of its own")
	b := call("u_1")
	require.Equal(t, 200, b.Status, "%v", b.Err)
	require.Equal(t, "ok", string(b.Body), "nothing of the first answer is in the second")
	c.Close()
	running.Wait()
	return result{a.Status, a.Class, string(a.Body), a.Unread, a.RetryAfter, a.Location, a.Cut, a.Rejected, kept > 0}
}

// FuzzPlainResponse: a response in the usual form is the same for net/http, and is whole.
func FuzzPlainResponse(f *testing.F) {
	for _, text := range plainTexts {
		f.Add([]byte(text))
	}
	for _, text := range otherTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		status, body, ok := egress.PlainResponse(answer)
		if !ok {
			return
		}
		require.True(t, whole(answer))
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
		require.NoError(t, err)
		require.Equal(t, resp.StatusCode, status)
		require.EqualValues(t, resp.ContentLength, len(body))
		read, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, string(read), string(body))
		for _, name := range []string{"Transfer-Encoding", "Retry-After", "Webhook-Delivery", "Content-Encoding"} {
			require.Empty(t, resp.Header[name])
		}
		require.Empty(t, resp.TransferEncoding)
		require.Contains(t, []int{2, 4, 5}, status/100)
	})
}

// plainTexts are responses in the usual form, otherTexts are all but that.
var (
	plainTexts = []string{
		plainOK, "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 \r\ncontent-length:0\r\n\r\n", okHead + "CONTENT-LENGTH: \t 2 \r\n\r\nok", okHead + "Content-Length: 00002\r\n\r\nok",
		okHead + "Connection: Keep-Alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok", okHead + "X-Empty:\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\n\x00\r\n\n", "HTTP/1.1 404 Nicht d\xc3\xa4\r\nX-A: \xff\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 599 A: b\r\nContent-Length: 0\r\n\r\n",
	}
	otherTexts = []string{
		"", "\n", "\r\n", "\r\n\r\n", plainOK[:20], plainOK[:len(plainOK)-1], plainOK + "x", plainOK + plainOK, " " + plainOK, "\r\n" + plainOK,
		okHead + "\r\n", okHead + "\r\nok", "HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 204 No\r\n\r\nx",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 +20 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 -20 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200\tOK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 101 Up\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 304 Not\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 999 Yes\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 000 No\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok", "HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 O\x00K\r\nContent-Length: 2\r\n\r\nok",
		okHead + "X-A: \x00\r\nContent-Length: 2\r\n\r\nok", okHead + "X-A: b\x7f\r\nContent-Length: 2\r\n\r\nok", okHead + "X-A: b\rc\r\nContent-Length: 2\r\n\r\nok", okHead + "X-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok", okHead + " X-A: b\r\nContent-Length: 2\r\n\r\nok",
		okHead + "Content-Length: 1\r\n 2\r\n\r\nok", okHead + "X A: b\r\nContent-Length: 2\r\n\r\nok", okHead + "X-A : b\r\nContent-Length: 2\r\n\r\nok", okHead + "X-A\r\nContent-Length: 2\r\n\r\nok", okHead + ": b\r\nContent-Length: 2\r\n\r\nok", okHead + "X-\xc3\xa4: b\r\nContent-Length: 2\r\n\r\nok",
		okHead + "Content-Length : 2\r\n\r\nok", okHead + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", okHead + "Content-Length: 2\r\ncontent-length: 3\r\n\r\nok", okHead + "Content-Length: +2\r\n\r\nok", okHead + "Content-Length: -2\r\n\r\nok", okHead + "Content-Length: \r\n\r\nok", okHead + "Content-Length: 2, 2\r\n\r\nok",
		okHead + "Content-Length: 0x2\r\n\r\nok", okHead + "Content-Length: 2 2\r\n\r\nok", okHead + "Content-Length: 99999999999999999999\r\n\r\nok", okHead + "Content-Length: 18446744073709551618\r\n\r\nok",
		okHead + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nok", okHead + "Content-Length: 2\r\ntransfer-encoding: identity\r\n\r\nok", okHead + "Connection: close\r\nContent-Length: 2\r\n\r\nok", okHead + "Connection: keep-alive, close\r\nContent-Length: 2\r\n\r\nok",
		okHead + "Connection: keep-alive\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", okHead + "Connection:\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n", okHead + "content-encoding: gzip\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 410 Gone\r\nwebhook-delivery: abort-message\r\nContent-Length: 0\r\n\r\n",
	}
)

// TestPlainResponseTakesTheUsualFormOnly: net/http parses every other form.
func TestPlainResponseTakesTheUsualFormOnly(t *testing.T) {
	for _, text := range plainTexts {
		_, _, ok := egress.PlainResponse([]byte(text))
		require.True(t, ok, "%q", text)
	}
	for _, text := range otherTexts {
		_, _, ok := egress.PlainResponse([]byte(text))
		require.False(t, ok, "%q", text)
	}
}

var (
	saysLength = regexp.MustCompile(`(?im)^content-length:`)
	saysCoding = regexp.MustCompile(`(?im)^transfer-encoding:`)
)

// whole reports whether bytes are one answer, framed once, and nothing more.
func whole(answer []byte) bool {
	rest := bytes.NewReader(answer)
	b := bufio.NewReader(rest)
	for {
		resp, err := http.ReadResponse(b, &http.Request{Method: http.MethodPost})
		if err != nil {
			return false
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return false
		}
		head, _, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
		twice := resp.StatusCode < 200 || saysLength.Match(head) && saysCoding.Match(head)
		return !resp.Close && !twice && b.Buffered() == 0 && rest.Len() == 0
	}
}
