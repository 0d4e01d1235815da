package main

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
func TestE2ETheReadmesLoopSendsAgainWhatA410Buried(t *testing.T) {
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
		_, _, err := i.CreateEndpoint(t.Context(), &wire.Endpoint{UID: uid, URL: w.receiver.URL + "/" + uid, Secret: w.secret.Reveal()})
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

	path, err := binary()
	require.NoError(t, err)
	script := block(t, "dead_reason=disabled")
	for from, to := range map[string]string{"http://127.0.0.1:8080": i.url, "bin/hookladder": path, "limit=500": "limit=2"} {
		require.Contains(t, script, from)
		script = strings.ReplaceAll(script, from, to)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-u", "-c", script)
	cmd.Env = append(os.Environ(), "HOOKLADDER_URL="+i.url, "HOOKLADDER_KEY=", raceAtExit)
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

func TestTheFirstThingThatTheReadmeSendsGoesToAReceiverThatIsThere(t *testing.T) {
	run := section(t, "Run it")
	addr := newListen(stage{}).Flags().Lookup("addr").DefValue
	require.Contains(t, run, "bin/hookladder listen &")
	require.Contains(t, run, "--url http://"+addr+"/")
	require.NotContains(t, run, "shop.example")
	for _, file := range []string{".gitignore", ".dockerignore"} { // that folder is where it was started
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		require.NoError(t, err)
		require.Regexp(t, `(?m)^/?appendonlydir/?$`, string(text), file)
	}
}

func TestE2EABuildWithoutGitTellsItsCommit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	require.NoError(t, err)
	require.Contains(t, string(text), "-X main.builtFrom=${REVISION}")
	path := filepath.Join(t.TempDir(), "hookladder")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-X main.builtFrom=0123456789abcdef", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.CommandContext(t.Context(), path, "version").CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "(0123456789ab), go1.")
}
