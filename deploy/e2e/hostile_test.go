package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// misbehave is what a receiver does with a connection once the request's header
// was read; the connection is closed when it returns.
type misbehave func(c net.Conn, rest *bufio.Reader)

func says(text string) misbehave {
	return func(c net.Conn, rest *bufio.Reader) {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, rest) // until the other side closes
	}
}

func saysForEver(head, text string) misbehave {
	return func(c net.Conn, _ *bufio.Reader) {
		_, err := io.WriteString(c, head)
		for err == nil {
			_, err = io.WriteString(c, text)
		}
	}
}

func cuts(text string) misbehave {
	return func(c net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(c, text) }
}

func resets(text string) misbehave {
	return func(c net.Conn, _ *bufio.Reader) {
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).SetLinger(0)
	}
}

// misbehaviours by path; each failed attempt's error has the words beside it.
var misbehaviours = map[string]struct {
	do     misbehave
	error  string // empty: it is delivered
	silent bool   // it never says enough
}{
	"/silent":        {says(""), "time", true},
	"/half-a-header": {says("HTTP/1.1 200 OK\r\nContent-"), "time", true},
	"/announces":     {says("HTTP/1.1 103 Early Hints\r\n\r\n"), "time", true},
	"/closes":        {cuts(""), "clos", false},
	"/resets":        {resets(""), "reset", false},
	"/banner":        {says("220 mail.example ESMTP\r\n"), "HTTP", false},
	"/redis":         {says("-ERR unknown command\r\n"), "HTTP", false},
	"/header":        {saysForEver("HTTP/1.1 200 OK\r\nX: ", strings.Repeat("x", 4096)), "", false},
	"/headers":       {saysForEver("HTTP/1.1 200 OK\r\n", "X-More: and more\r\n"), "", false},
	"/failing":       {saysForEver("HTTP/1.1 500 No\r\n", "X-More: and more\r\n"), "header", false},
	"/1xx":           {saysForEver("", "HTTP/1.1 102 Processing\r\n\r\n"), "", false},
	"/leaves":        {says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "101", false},
	"/moves":         {says("HTTP/1.1 307 Temporary Redirect\r\nLocation: /moves\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), "status 307 to /moves: redirects are not followed", false},
	"/lengths":       {says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "", false},
	"/endless":       {saysForEver("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 4096)), "", false},
	"/cut":           {cuts("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab"), "", false},
	"/drips":         {says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na"), "", true},
	"/refuses":       {says("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), "413", false},
}

// Whatever a receiver does is one attempt with a word for it, ends in time, and
// holds nothing afterwards.
func TestHostileReceiversEndAsOneAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("QUICK_RETRIES=0")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open atomic.Int64
	var mu sync.Mutex
	met := map[string]int{}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Add(1)
			serving.Go(func() {
				defer open.Add(-1)
				defer func() { _ = c.Close() }()
				rest := bufio.NewReader(c)
				req, err := http.ReadRequest(rest)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				mu.Lock()
				met[req.URL.Path]++
				mu.Unlock()
				misbehaviours[req.URL.Path].do(c, rest)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	for path := range misbehaviours {
		m := wire.Message{ID: path[1:], MaxAttempts: 1, URL: fmt.Sprintf("http://%s%s", ln.Addr(), path)}
		if misbehaviours[path].silent {
			m.Timeout = wire.Duration(2 * time.Second) // only the timeout ends it
			if misbehaviours[path].error == "" {
				m.Timeout = wire.Duration(10 * time.Second) // in which its header has to come
			}
		}
		i.publish(m)
	}
	for path, want := range misbehaviours {
		d := i.until(path[1:], map[bool]string{true: "dead", false: "delivered"}[want.error != "" || path == "/1xx"])
		require.Equal(t, 1, d.Attempts, path)
		if d.Status == "dead" {
			require.Equal(t, "exhausted", d.DeadReason, path)
			require.Len(t, d.History, 1, path)
			require.Contains(t, d.History[0].Error, want.error, path)
			require.NotEmpty(t, d.History[0].Error, path)
			require.NotContains(t, d.History[0].Error, ln.Addr().String(), path)
		}
	}
	eventually(t, "connections are held", func() bool { return open.Load() == 0 })
	mu.Lock()
	defer mu.Unlock()
	for path := range misbehaviours {
		require.Equal(t, 1, met[path], path)
	}
}
