package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// listenForStates returns the environment of systemd, and the reports that it gets.
func listenForStates(t *testing.T, watchdog string) (vars map[string]string, next func() string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": watchdog}, func() string {
		text := make([]byte, 64)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		n, err := conn.Read(text)
		require.NoError(t, err)
		return string(text[:n])
	}
}

func isAlive() error { return nil }

func TestSystemdLearnsTheStartAndTheStop(t *testing.T) {
	vars, next := listenForStates(t, "")
	ctx, stop := context.WithCancel(t.Context())
	supervisorFrom(vars).Ready(ctx, "off", isAlive)
	require.Equal(t, "READY=1", next())
	stop()
	require.Equal(t, "STOPPING=1", next())
}

func TestTheWatchdogHearsOfAnAPIOnlyWhileItAnswers(t *testing.T) {
	vars, next := listenForStates(t, "20000")
	var asked atomic.Int64
	hang := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 3 {
			<-hang
		}
	}))
	t.Cleanup(api.Close)
	t.Cleanup(func() { close(hang) })
	ctx, stop := context.WithCancel(t.Context())
	supervisorFrom(vars).Ready(ctx, strings.TrimPrefix(api.URL, "http://"), isAlive)
	require.Equal(t, "READY=1", next())
	signs := 0
	require.Eventually(t, func() bool { return asked.Load() > 5 }, time.Minute, time.Millisecond)
	stop()
	for next() == "WATCHDOG=1" {
		signs++
	}
	require.LessOrEqual(t, signs, 3, "the others hang")
	require.Positive(t, signs)
}

func TestWithoutSystemdNothingIsReported(t *testing.T) {
	supervisorFrom(nil).Ready(t.Context(), "off", isAlive)
}

func TestTheWatchdogHearsNothingOfAProcessThatIsStuck(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(api.Close)
	for _, addr := range []string{"off", strings.TrimPrefix(api.URL, "http://")} {
		vars, next := listenForStates(t, "20000")
		var asked atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		supervisorFrom(vars).Ready(ctx, addr, func() error {
			if asked.Add(1) > 5 {
				stop()
			}
			return errors.New("stuck")
		})
		require.Equal(t, "READY=1", next())
		require.Equal(t, "STOPPING=1", next())
	}
}
