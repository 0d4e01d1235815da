package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// benchEnviron is what a bench needs of the environment, with a folder for its
// files.
func benchEnviron(t testing.TB) (environ []string, dir string) {
	t.Helper()
	dir = t.TempDir()
	return []string{searched(), "TMPDIR=" + dir, kit.NoExitSleep}, dir
}

// The smallest bench: its figure means nothing. make bench-quick carries out all
// parts, and fails where a figure is missing that has a target.
func TestABenchWritesItsTableAndItsFigures(t *testing.T) {
	t.Parallel()
	environ, dir := benchEnviron(t)
	file := filepath.Join(t.TempDir(), "figures.json")
	got := mustRun(t, environ, "", "bench", "--only", "limit", "--quick", "--runs", "1", "--messages", "64", "--json", file)
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.err, "run 1 of 1: limit")
	require.Regexp(t, `(?m)^  rate, /s +[\d,]+ `, got.out)
	var figures struct {
		Machine struct{ Redis string }
		Figures []struct {
			Name   string
			Values []float64
		}
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &figures))
	require.Equal(t, "limit: rate", figures.Figures[0].Name)
	require.Len(t, figures.Figures[0].Values, 1)
	require.Contains(t, figures.Machine.Redis, ".")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "its files are gone")
}
