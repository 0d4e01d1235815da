package e2e_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// systemd learns when requests are served, and when the stop begins.
func TestSystemdLearnsTheStateOfServe(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	next := func() string {
		text := make([]byte, 64)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		n, err := conn.Read(text)
		require.NoError(t, err)
		return string(text[:n])
	}
	w := newWorld(t)
	i := w.serve("NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=200000")
	require.Equal(t, "READY=1", next())
	require.Equal(t, "WATCHDOG=1", next())
	require.Equal(t, exitOK, i.stop())
	last := ""
	for last != "STOPPING=1" {
		last = next()
	}
}
