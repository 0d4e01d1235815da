package bench_test

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/bench"
)

func TestPortsThatHangTakeCallsUntilTheyAreStopped(t *testing.T) {
	t.Parallel()
	const ports = 3
	h, err := bench.Hang(ports)
	require.NoError(t, err)
	defer h.Stop()
	var conns []net.Conn
	for i := range ports {
		conn, err := net.Dial("tcp", h.Addr(i).String())
		require.NoError(t, err)
		defer conn.Close() //nolint:errcheck // it is closed from the other side
		_, err = conn.Write([]byte("POST / HTTP/1.1\r\n\r\n"))
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	<-h.All()
	require.Equal(t, ports, h.Tried())
	require.Equal(t, ports, h.Now())
	h.Stop()
	for _, conn := range conns {
		answer, _ := io.ReadAll(conn) // an end or a reset
		require.Empty(t, answer)
	}
	require.Zero(t, h.Now())
	_, err = net.Dial("tcp", h.Addr(0).String())
	require.Error(t, err)
}
