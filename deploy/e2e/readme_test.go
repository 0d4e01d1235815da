package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// block is the README's code between fences that holds a text.
func block(t testing.TB, text string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	for n, part := range strings.Split(string(readme), "\n```") {
		if n%2 == 1 && strings.Contains(part, text) {
			_, lines, _ := strings.Cut(part, "\n")
			return lines
		}
	}
	require.FailNow(t, "README.md has no block with "+text)
	return ""
}

// After a 410 by mistake: what the README shows is pasted into a shell.
func TestTheReadmesLoopSendsAgainWhatA410Buried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mended atomic.Bool
	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, _ string, _ int) {
		if !mended.Load() {
			rw.WriteHeader(http.StatusGone)
		}
	})
	i := w.serve()
	for _, uid := range []string{"shop-42", "shop-43"} {
		_, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: uid, URL: w.receiver.URL(0) + "/" + uid, Secret: w.secret.Reveal()})
		require.NoError(t, err)
		i.publish(wire.Message{ID: uid + "-gone", Endpoint: uid})
		i.until(uid+"-gone", "dead")
	}
	const buried = 5
	for n := range buried {
		id := fmt.Sprint("m", n)
		i.publish(wire.Message{ID: id, Endpoint: "shop-42"})
		require.Equal(t, "disabled", i.delivery(id).DeadReason)
	}
	mended.Store(true)

	path, err := kit.Binary()
	require.NoError(t, err)
	script := block(t, "dead_reason=disabled")
	for from, to := range map[string]string{"http://127.0.0.1:8080": i.URL, "bin/hookladder": path, "limit=500": "limit=2"} {
		require.Contains(t, script, from)
		script = strings.ReplaceAll(script, from, to)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-u", "-c", script)
	cmd.Env = append(os.Environ(), "HOOKLADDER_URL="+i.URL, "HOOKLADDER_KEY=", kit.NoExitSleep)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for n := range buried {
		i.until(fmt.Sprint("m", n), "delivered")
	}
	i.until("shop-42-gone", "delivered")
	require.Equal(t, "dead", i.delivery("shop-43-gone").Status, "another endpoint's")
	for n := range buried {
		require.Len(t, w.receiver.arrivals(fmt.Sprint("m", n)), 1)
	}
}

// The image has no git to ask.
func TestABuildWithoutGitTellsItsCommit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	require.NoError(t, err)
	require.Contains(t, string(text), "-X main.builtFrom=${REVISION}")
	got := mustRun(t, nil, "", "version") // kit builds it like that
	require.Contains(t, got.out, "("+kit.Revision[:12]+"), go1.")
}
