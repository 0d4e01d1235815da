//go:build node

package docs_test

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// allLanguages reports whether PHP, Ruby, Java and Mono are installed.
const allLanguages = true

// pasteNode runs a receiver with the packages that it imports.
func (v *visitor) pasteNode(text string) string {
	v.t.Helper()
	_, shown, _ := strings.Cut(v.shows, ":")
	_, port, _ := strings.Cut(v.other, ":")
	dir := filepath.Join(v.dir, "node")
	require.NoError(v.t, os.MkdirAll(dir, 0o700))
	for _, name := range []string{"package.json", "package-lock.json"} {
		file, err := os.ReadFile(filepath.Join(top(v.t), "deploy", "interop", name))
		require.NoError(v.t, err)
		require.NoError(v.t, os.WriteFile(filepath.Join(dir, name), file, 0o600))
	}
	v.run("cd node && npm ci --no-fund --no-audit")
	require.Contains(v.t, text, "listen("+shown+",")
	text = strings.ReplaceAll(text, "listen("+shown+",", "listen("+port+",")
	require.NoError(v.t, os.WriteFile(filepath.Join(dir, "page.mjs"), []byte(text), 0o600))
	v.judge("exec node node/page.mjs")
	return ""
}
