package callers_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

// A publish on a connection that was used before: what net/http and the limiter take of it.
func BenchmarkRequestOfAKey(b *testing.B) {
	g := callers.New(64, nil, slog.New(slog.DiscardHandler))
	ln, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	s := callers.Server(api(false), slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- s.Serve(g.Listen(ln)) }()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", ln.Addr().String())
	require.NoError(b, err)
	in := bufio.NewReader(conn)
	body := strings.Repeat("x", 1000)
	request := "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + publishKey + "\r\nContent-Length: 1000\r\n\r\n" + body
	b.ReportAllocs()
	for b.Loop() {
		_, err := io.WriteString(conn, request)
		require.NoError(b, err)
		resp, err := http.ReadResponse(in, nil)
		require.NoError(b, err)
		require.Equal(b, http.StatusAccepted, resp.StatusCode)
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	require.NoError(b, conn.Close())
	require.NoError(b, s.Close())
	<-served
}
