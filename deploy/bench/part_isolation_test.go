package main

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortsThatHangTakeCallsUntilTheyAreStopped(t *testing.T) {
	t.Parallel()
	const ports = 3
	h, err := hang(ports)
	require.NoError(t, err)
	defer h.stop()
	var conns []net.Conn
	for i := range ports {
		conn, err := net.Dial("tcp", h.ports[i].Addr().String())
		require.NoError(t, err)
		defer conn.Close() //nolint:errcheck // it is closed from the other side
		_, err = conn.Write([]byte("POST / HTTP/1.1\r\n\r\n"))
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	<-h.all
	require.Equal(t, ports, h.tried())
	require.Equal(t, ports, h.now())
	h.stop()
	for _, conn := range conns {
		answer, _ := io.ReadAll(conn) // an end or a reset
		require.Empty(t, answer)
	}
	require.Zero(t, h.now())
	_, err = net.Dial("tcp", h.ports[0].Addr().String())
	require.Error(t, err)
}
