package openapi_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "github.com/oapi-codegen/runtime" // the generated client imports it
	"github.com/stretchr/testify/require"
)

// mustRun runs a program in a folder and returns its output.
func mustRun(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath") // with the versions of this module alone
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

// TestAGeneratedGoClientWorks generates a client from the document, and runs a program with it.
func TestAGeneratedGoClientWorks(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	document, generated, overlay := filepath.Join(dir, "openapi.json"), filepath.Join(dir, "client.go"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(document, w.text, 0o600))
	mustRun(t, ".", "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", generated, document)
	place, err := filepath.Abs("testdata/goclient/client.go")
	require.NoError(t, err)
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{place: generated}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	require.Equal(t, "from-go\n", mustRun(t, ".", "go", "run", "-overlay", overlay, "./testdata/goclient", w.url, key))
}
