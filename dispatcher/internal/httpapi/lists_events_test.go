package httpapi_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

// listener hands one connection to a server.
type listener struct{ conns chan net.Conn }

func (l listener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l listener) Close() error { close(l.conns); return nil }
func (listener) Addr() net.Addr { return &net.TCPAddr{} }

// visit has a server answer one request by a handler.
func visit(t *testing.T, answer func(*httpapi.Stream) error, read func(conn net.Conn), want func(err error, took time.Duration)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, conn := net.Pipe()
		done := make(chan struct{})
		srv := &http.Server{
			ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				defer close(done)
				begin := time.Now()
				err := answer(httpapi.NewStream(w))
				want(err, time.Since(begin))
			}),
		}
		l := listener{make(chan net.Conn, 1)}
		l.conns <- conn
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		_, err := client.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
		require.NoError(t, err)
		read(client)
		<-done
		_ = client.Close()
		_ = srv.Close()
		<-served
	})
}

func TestEventsAreWrittenAsBrowsersReadThem(t *testing.T) {
	visit(t, func(s *httpapi.Stream) error {
		require.NoError(t, s.Send(httpapi.Event{Name: "attempt", ID: "1", Data: map[string]string{"a": "x\ny"}}))
		require.NoError(t, s.Send(httpapi.Event{ID: "2"}))
		require.NoError(t, s.Send(httpapi.Event{Name: "end", Data: 7}))
		return s.Flush()
	}, func(conn net.Conn) {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
		require.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
		require.True(t, resp.Close, "the next request goes elsewhere")
		var text strings.Builder
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			text.WriteString(lines.Text() + "\n")
		}
		require.Equal(t, "id: 1\nevent: attempt\ndata: {\"a\":\"x\\ny\"}\n\nid: 2\n:\n\nevent: end\ndata: 7\n\n", text.String())
	}, func(err error, _ time.Duration) { require.NoError(t, err) })
}

func TestAStreamOutlivesTheTimeouts(t *testing.T) {
	visit(t, func(s *httpapi.Stream) error {
		for range 20 {
			if err := s.Send(httpapi.Event{ID: "1"}); err != nil {
				return err
			}
			if err := s.Flush(); err != nil {
				return err
			}
			time.Sleep(15 * time.Second)
		}
		return nil
	}, func(conn net.Conn) {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		lines, n := bufio.NewScanner(resp.Body), 0
		for lines.Scan() {
			n++
		}
		require.Equal(t, 60, n)
	}, func(err error, took time.Duration) {
		require.NoError(t, err)
		require.Equal(t, 5*time.Minute, took)
	})
}

func TestACallerThatDoesNotReadIsCutOff(t *testing.T) {
	visit(t, func(s *httpapi.Stream) error {
		for {
			if err := s.Send(httpapi.Event{Name: "attempt", ID: "1", Data: strings.Repeat("x", 1000)}); err != nil {
				return err
			}
		}
	}, func(net.Conn) {}, func(err error, took time.Duration) {
		require.Error(t, err)
		require.Equal(t, 10*time.Second, took)
	})
}
