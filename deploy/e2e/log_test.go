package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// serveUnread starts an instance whose log goes into a pipe. Nobody reads it.
func (w *world) serveUnread(settings ...string) (i *instance, log *os.File) {
	w.t.Helper()
	log, stderr, err := os.Pipe()
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = log.Close() })
	port, err := kit.FreePort()
	require.NoError(w.t, err)
	w.stderr = stderr
	i = w.begin(append(settings, "LISTEN="+kit.Loopback(port), "LOG_LEVEL=info")...)
	w.stderr = nil
	require.NoError(w.t, stderr.Close())
	i.URL = "http://" + kit.Loopback(port)
	i.Client, err = client.New(i.URL, "", kit.Once)
	require.NoError(w.t, err)
	require.NoError(w.t, i.WaitReady(context.Background()))
	return i, log
}

// requireHealthy checks that an instance says that it is alive.
func (i *instance) requireHealthy() {
	i.t.Helper()
	res, body := i.call(http.MethodGet, "/healthz", "", nil)
	require.Equal(i.t, http.StatusOK, res.StatusCode, body)
}

// A log shipper or a container runtime that hangs lets the pipe of the log fill up.
func TestALogThatNobodyReadsStopsNoDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, id string, _ int) {
		if strings.HasPrefix(id, "dead") {
			rw.WriteHeader(http.StatusGone)
		}
	})
	i, _ := w.serveUnread()
	const deaths, good = 600, 20 // a pipe has room for the lines of some 300 deaths
	batch := make([]wire.Message, deaths)
	for n := range batch {
		batch[n] = wire.Message{ID: fmt.Sprint("dead", n), Topic: "t", URL: w.receiver.URL(n + 1), Body: []byte("1")}
	}
	_, err := i.PublishBatch(t.Context(), batch)
	require.NoError(t, err)
	for n := range good {
		i.publish(wire.Message{ID: fmt.Sprint("good", n), URL: w.receiver.URL(0)})
	}
	i.untilAll("delivered", named("good", good)...)
	i.counts("all deaths are recorded", func(s wire.Stats) bool { return s.Counts["dead"] == deaths && s.InFlight == 0 })
	i.requireHealthy()
	require.Zero(t, i.stop(), "the log does not hold up the stop")
}

// A log shipper that dies closes the pipe. The attempts under way continue.
func TestAClosedLogEndsNothing(t *testing.T) {
	t.Parallel()
	const flying = 10
	w := newWorld(t)
	h := newBarrier()
	w.receiver.answers(func(rw http.ResponseWriter, r *http.Request, id string, _ int) {
		if strings.HasPrefix(id, "flying") {
			h.wait(r)
		} else {
			rw.WriteHeader(http.StatusGone)
		}
	})
	i, log := w.serveUnread()
	i.flying(flying)
	require.NoError(t, log.Close())
	i.publish(wire.Message{ID: "dead", URL: w.receiver.URL(flying + 1)})
	i.until("dead", "dead")
	eventually(t, "the lost lines are counted", func() bool {
		return i.Gone() || !strings.Contains(i.metrics(), "hookladder_log_dropped_total 0\n")
	})
	close(h.release)
	i.untilAll("delivered", named("flying", flying)...)
	i.requireHealthy()
	require.NoError(t, i.Signal(syscall.SIGTERM))
	require.Zero(t, i.ExitCode())
	w.receiver.once()
}
