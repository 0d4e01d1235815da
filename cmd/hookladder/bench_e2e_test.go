package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/bench"
)

// benchWait bounds the smallest bench, which takes 20 s, and minutes on a busy
// machine.
const benchWait = 15 * time.Minute

// benchEnviron is what a bench needs of the environment, with a folder for its
// files.
func benchEnviron(t testing.TB) (environ []string, dir string) {
	t.Helper()
	dir = t.TempDir()
	return []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, raceAtExit}, dir
}

// All of it, with as few messages as it takes: what is measured means nothing,
// but that nothing was lost, doubled or unsigned, and that no figure is missing.
func TestE2EABenchMeasuresEverythingThatHasATarget(t *testing.T) {
	t.Parallel()
	environ, dir := benchEnviron(t)
	file := filepath.Join(t.TempDir(), "figures.json")
	path, err := binary()
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), benchWait)
	defer stop()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "bench", "--quick", "--runs", "1", "--messages", "64", "--json", file)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &out, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	require.NoError(t, cmd.Run(), "%s", &said)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r bench.Report
	require.NoError(t, json.Unmarshal(text, &r))
	have := map[string]bool{}
	for _, f := range r.Figures {
		require.Len(t, f.Values, 1, f.Name)
		require.False(t, have[f.Name], f.Name)
		have[f.Name] = true
		_, what, ok := strings.Cut(f.Name, ": ")
		require.True(t, ok, f.Name)
		require.Contains(t, out.String(), what)
	}
	for _, name := range bench.Judged() {
		require.True(t, have[name], "no figure is called %q, which has a target", name)
	}
	for _, part := range bench.Parts() {
		require.Contains(t, said.String(), "run 1 of 1: "+part[0])
	}
	require.Contains(t, r.Machine.Redis, ".")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "its files are gone")
}

func TestABenchRefusesWhatItCannotDo(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no runs":                   {[]string{"--runs", "0"}, "--runs 0: must be at least 1"},
		"too few messages":          {[]string{"--messages", "10"}, "--messages 10: must be at least 64"},
		"an unknown part":           {[]string{"--only", "drain,drian"}, "--only drian: there are limit, drain"},
		"an argument":               {[]string{"drain"}, "bench takes no arguments"},
		"an unknown flag":           {[]string{"--fast"}, "unknown flag"},
		"a receiver with no secret": {[]string{"receiver"}, "SIGNING_SECRET is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t, nil, "", append([]string{"bench"}, c.args...)...)
			require.Equal(t, exitUsage, got.code)
			require.Contains(t, got.err, c.says)
			require.Empty(t, got.out)
		})
	}
}

func TestABenchThatCannotWriteItsFiguresSaysSoBeforeItMeasures(t *testing.T) {
	got := command(t, nil, "", "bench", "--json", filepath.Join(t.TempDir(), "missing", "figures.json"))
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "write the figures")
	require.NotContains(t, got.err, "run 1")
}

func TestABenchWithoutAStoreSaysHowToGetOne(t *testing.T) {
	got := command(t, nil, "", "bench", "--redis-server", "no-such-server")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "there is no no-such-server: install it")
}
