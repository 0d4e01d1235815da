package e2e_test

import (
	"bytes"
	"context"
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

// The exit codes of the contract.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 4
)

// result is what became of one command line.
type result struct {
	code     int
	out, err string
}

// mustRun carries out one command of the binary to its end, in an empty
// folder and with no other environment than is given.
func mustRun(t *testing.T, environ []string, in string, args ...string) result {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), kit.Patience)
	defer stop()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, mustBinary(t), args...)
	cmd.Env, cmd.Dir = append([]string{kit.NoExitSleep}, environ...), t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil || ctx.Err() != nil {
		require.FailNow(t, "it does not run to its end", "%v %s", err, errs.String())
	}
	return result{code: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
}

func TestACallWithoutAKeySaysWhereItsKeyComesFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve("API_KEYS=0123456789abcdef:read")
	env := []string{"HOOKLADDER_URL=" + i.URL}
	got := mustRun(t, env, "", "get", "m1")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "set HOOKLADDER_KEY")
	require.Contains(t, got.err, "--key-file")
	got = mustRun(t, append(env, "HOOKLADDER_KEY=another-key-than-that"), "", "get", "m1")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "the key in HOOKLADDER_KEY")
	require.NotContains(t, got.err, "another-key")
	got = mustRun(t, append(env, "HOOKLADDER_KEY=0123456789abcdef"), "", "get", "m1")
	require.Equal(t, exitNotFound, got.code)
	require.NotContains(t, got.err, "HOOKLADDER_KEY")
}

// block is the code between fences of endpoints.md that holds a text.
func block(t testing.TB, text string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "endpoints.md"))
	require.NoError(t, err)
	for n, part := range strings.Split(string(page), "\n```") {
		if n%2 == 1 && strings.Contains(part, text) {
			_, lines, _ := strings.Cut(part, "\n")
			return lines
		}
	}
	require.FailNow(t, "endpoints.md has no block with "+text)
	return ""
}

// After a 410 by mistake: what the page of endpoints shows is pasted into a shell.
func TestWhatThePageShowsSendsAgainWhatA410Buried(t *testing.T) {
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

	path, err := kit.FastBinary()
	require.NoError(t, err)
	script := block(t, "retry --destination shop-42")
	for from, to := range map[string]string{"hookladder ": path + " ", "--rate 200/s": "--rate 200/s --yes"} {
		require.Contains(t, script, from)
		script = strings.ReplaceAll(script, from, to)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-u", "-c", script)
	cmd.Env = append(os.Environ(), "HOOKLADDER_URL="+i.URL, "HOOKLADDER_KEY=", kit.NoExitSleep)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	i.untilAll("delivered", named("m", buried)...)
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
