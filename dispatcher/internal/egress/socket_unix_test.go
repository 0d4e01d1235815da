//go:build unix

package egress_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// arrived returns when there is something to read, or its end, and leaves it
// there. It may be with the system a little after it was sent.
func arrived(t testing.TB, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return err != syscall.EAGAIN
	}))
}

// stuff writes until the system takes no more, and returns the number of bytes.
func stuff(t testing.TB, c *net.TCPConn) (n int) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	junk := make([]byte, 1000)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for {
			m, err := syscall.Write(int(fd), junk)
			if n += max(m, 0); err != nil {
				return
			}
		}
	}))
	return n
}

// TestRequestThatTheSystemTakesInPartsArrivesWhole: the first write finds no room, or little.
func TestRequestThatTheSystemTakesInPartsArrivesWhole(t *testing.T) {
	stuffed := make(chan int, 1)
	read := make(chan struct{})
	r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		<-read
		b := bufio.NewReader(c)
		_, _ = io.CopyN(io.Discard, b, int64(<-stuffed))
		for {
			req, err := http.ReadRequest(b)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(req.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"+string(body[len(body)-2:]))
		}
	})
	var w watched
	c := w.client(t, egress.Options{})
	w.dialled = func(conn *net.TCPConn) { stuffed <- stuff(t, conn) }
	call := newTestCall(r.url(t))
	call.Body = []byte(strings.Repeat("x", 12<<10) + "ok")
	answers := make(chan dispatcher.Answer, 1)
	go func() { answers <- send(t, c, call) }()
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return strings.Contains(string(stacks), "waitWrite")
	}, safety, time.Millisecond, "the call waits for room")
	close(read)
	a := <-answers
	require.Equal(t, 200, a.Status, "%v", a.Err)
	require.Equal(t, "ok", string(a.Body))
	require.Equal(t, 200, send(t, c, call).Status)
	require.EqualValues(t, 1, r.accepted.Load(), "the connection is kept")
}

// TestNothingIsWrittenToAnIdleConnectionThatEnded: the call dials instead.
func TestNothingIsWrittenToAnIdleConnectionThatEnded(t *testing.T) {
	again := make(chan struct{})
	gone := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		r.request(bufio.NewReader(c))
		_, _ = io.WriteString(c, plainOK)
		<-again
	})
	var w watched
	c := w.client(t, egress.Options{})
	require.Equal(t, 200, send(t, c, newTestCall(gone.url(t))).Status)
	close(again)
	arrived(t, w.first())
	_ = gone.listener.Close()
	a := send(t, c, newTestCall(gone.url(t)))
	require.Equal(t, dispatcher.ClassConnect, a.Class, "%v", a.Err)
	require.Empty(t, a.Address, "the address of the idle connection is not the call's")
	require.EqualValues(t, 1, gone.requests.Load())
}
