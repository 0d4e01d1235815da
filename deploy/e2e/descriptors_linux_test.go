package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// newTestOrigins is a receiver that answers 200 at every loopback address.
func newTestOrigins(t testing.TB) (origin func(n int) string) {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	port := l.Addr().(*net.TCPAddr).Port
	return func(n int) string { return fmt.Sprintf("http://127.0.%d.%d:%d/", 1+n/250, 1+n%250, port) }
}

// A process may open few files: more receivers than that are called all the
// same, none is blamed, and strangers on the API don't matter.
func TestFewFileDescriptorsCostNoDelivery(t *testing.T) {
	t.Parallel()
	const limit, origins = 128, 500
	w := newWorld(t)
	path, err := kit.FastBinary()
	require.NoError(t, err)
	w.binary = filepath.Join(t.TempDir(), "few")
	require.NoError(t, os.WriteFile(w.binary, fmt.Appendf(nil, "#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", limit, path), 0o700))
	i := w.serve("LADDER=1h", "API_KEYS="+e2eKey+":admin:e2e")
	i.Client = nil // it has no key
	require.Contains(t, i.log(), "MAX_IN_FLIGHT is lowered")
	require.Contains(t, i.log(), fmt.Sprintf(`"msg":"resources","descriptors":%d`, limit))
	for range 2 * limit {
		c, err := net.Dial("tcp", strings.TrimPrefix(i.URL, "http://"))
		require.NoError(t, err)
		defer c.Close()
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") // and stays; some are closed already
	}
	// A newcomer among many strangers may have to make room before it could speak.
	// One that is answered came after them all.
	eventually(t, "a newcomer is answered", func() bool {
		res, err := http.Get(i.URL + "/healthz")
		return err == nil && res.Body.Close() == nil
	})
	origin := newTestOrigins(t)
	var b strings.Builder
	for n := range origins {
		fmt.Fprintf(&b, `,{"topic":"t","url":"%s","body":1}`, origin(n))
	}
	key := http.Header{"Authorization": {"Bearer " + e2eKey}, "Content-Type": {"application/json"}}
	res, text := i.call(http.MethodPost, "/v1/messages/batch", `{"messages":[`+b.String()[1:]+`]}`, key)
	require.Equal(t, http.StatusAccepted, res.StatusCode, text)
	var figures string
	eventually(t, "all are delivered", func() bool {
		_, figures = i.call(http.MethodGet, "/metrics", "", key)
		return strings.Contains(figures, fmt.Sprintf("\nhookladder_attempts_total{class=\"none\",outcome=\"delivered\"} %d\n", origins))
	})
	require.NotContains(t, figures, "\nhookladder_deliveries{status=\"retrying\"} 1")
	require.Contains(t, figures, "\nhookladder_attempts_total{class=\"connect\",outcome=\"retry\"} 0\n")
	require.NotContains(t, figures, "\nhookladder_connections_refused_total{why=\"idle\"} 0\n")
}

const e2eKey = "e2e-key-0123456789ab"

// The process runs out of file descriptors while it works: the delivery waits,
// and is attempted when there are some again.
func TestOwnExhaustionWaitsAndBlamesNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("LADDER=1h")
	i.troubled = true // the log tells of it
	origin := newTestOrigins(t)
	i.publish(wire.Message{ID: "warm", URL: origin(0)})
	i.until("warm", "delivered")

	pid := i.Pid()
	var before unix.Rlimit
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before))
	few := before
	few.Cur = 3 // none is below: what is open stays
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil))
	_, err := i.Publish(t.Context(), &wire.Message{ID: "waits", Topic: "t", URL: origin(1), Body: []byte("1")})
	require.NoError(t, err)
	i.says("no connection could be opened")
	figures := i.metrics()
	require.NotContains(t, figures, "\nhookladder_exhausted_total 0\n")

	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil))
	d := i.until("waits", "delivered")
	require.Equal(t, 1, d.Attempts, "no rung was spent")
}
