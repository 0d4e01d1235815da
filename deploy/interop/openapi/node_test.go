//go:build node

package openapi_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// newNodeProject copies the TypeScript project to a folder of its own, with its modules.
func newNodeProject(t testing.TB, w *world) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/tsclient")))
	mustRun(t, dir, "npm", "ci", "--no-fund", "--no-audit")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openapi.json"), w.text, 0o600))
	return dir
}

// TestTheLinterReportsNothing uses the strict set of rules.
func TestTheLinterReportsNothing(t *testing.T) {
	dir := newNodeProject(t, newWorld(t))
	out := mustRun(t, dir, "npx", "redocly", "lint", "--config", "redocly.yaml", "openapi.json")
	require.Contains(t, out, "Your API description is valid")
}

// TestAGeneratedTypeScriptClientWorks generates types from the document, and runs a program with
// them.
func TestAGeneratedTypeScriptClientWorks(t *testing.T) {
	w := newWorld(t)
	dir := newNodeProject(t, w)
	mustRun(t, dir, "npx", "openapi-typescript", "openapi.json", "-o", "api.d.ts")
	mustRun(t, dir, "npx", "tsc")
	require.Equal(t, "scheduled\n", mustRun(t, dir, "node", "out/main.js", w.url, key))
}
