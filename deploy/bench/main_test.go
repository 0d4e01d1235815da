package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// startBench starts a bench of the real program in a process of its own, with a folder for
// its files.
func startBench(t testing.TB, args ...string) (p *kit.Process, dir string) {
	t.Helper()
	redistest.Long(t)
	program, err := kit.FastBinary()
	require.NoError(t, err)
	self, err := kit.Build("./deploy/bench", "-ldflags", "-w")
	require.NoError(t, err)
	dir = t.TempDir()
	p, err = kit.Start(kit.Command{
		Name: "bench", Path: self, Args: append([]string{"-binary", program}, args...),
		Env: []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir},
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p, dir
}

func TestFlagsThatCannotBeAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		says string
	}{
		"no runs":          {"-runs 0", "-runs 0: must be at least 1"},
		"too few messages": {"-messages 10", "-messages 10: must be at least 64"},
		"an unknown part":  {"-only drain,drian", "-only drian: there are limit, drain"},
		"an argument":      {"drain", `bench takes no arguments, not "drain"`},
		"an unknown flag":  {"-fast", "flag provided but not defined: -fast"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			_, _, err := parse(strings.Fields(c.args), &out)
			require.Error(t, err)
			require.Contains(t, out.String(), c.says)
		})
	}
}

func TestTheHelpListsThePartsAndTheFlagsMayHaveTwoDashes(t *testing.T) {
	var out strings.Builder
	_, _, err := parse([]string{"-help"}, &out)
	require.Error(t, err)
	for _, p := range parts() {
		require.Contains(t, out.String(), p.about)
	}
	o, file, err := parse(strings.Fields("--quick --runs 1 --only drain,through --only limit --json figures.json"), &out)
	require.NoError(t, err)
	require.Equal(t, options{Runs: 1, Quick: true, Only: []string{"drain", "through", "limit"}, RedisServer: "redis-server"}, o)
	require.Equal(t, "figures.json", file)
}

func TestAFileThatCannotBeWrittenIsReportedBeforeTheMeasurements(t *testing.T) {
	err := execute(t.Context(), []string{"-json", filepath.Join(t.TempDir(), "missing", "figures.json")})
	require.ErrorContains(t, err, "write the figures")
}

func TestTheReceiverNeedsTheSecretOfItsBench(t *testing.T) {
	t.Setenv(receiverSecret, "")
	require.ErrorContains(t, execute(t.Context(), []string{receiverArg}), "SIGNING_SECRET")
}

func TestAProgramReportsItsVersionAndItsCommit(t *testing.T) {
	require.Equal(t, "0.2.0 (0123456789ab)", versionIn("hookladder 0.2.0 (0123456789ab), go1.26.8 linux/amd64\n"))
	require.Equal(t, "0.2.0 (0123456789ab, changed)", versionIn("hookladder 0.2.0 (0123456789ab, changed), go1.26.8 linux/amd64\n"))
	require.Equal(t, "0.2.0", versionIn("hookladder 0.2.0, go1.26.8 linux/amd64\n"))
}

// The smallest bench: its figure means nothing. make bench-quick runs all parts.
func TestABenchWritesItsTableAndItsFigures(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "figures.json")
	p, dir := startBench(t, "-only", "limit", "-quick", "-runs", "1", "-messages", "64", "-json", file)
	require.Zero(t, p.ExitCode(), p.Output.String())
	require.Contains(t, p.Output.String(), "run 1 of 1: limit")
	require.Regexp(t, `(?m)^  rate, /s +[\d,]+ `, p.Output.String())
	var figures struct {
		Hookladder string
		Machine    struct{ Redis string }
		Figures    []struct {
			Name   string
			Values []float64
		}
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &figures))
	require.Contains(t, figures.Hookladder, kit.Revision[:12])
	require.Equal(t, "limit: rate", figures.Figures[0].Name)
	require.Len(t, figures.Figures[0].Values, 1)
	require.Contains(t, figures.Machine.Redis, ".")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "its files are gone")
}
