//go:build !node

package docs_test

import (
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
)

// allLanguages reports whether PHP, Ruby, Java and Mono are installed. make docs-check installs them.
const allLanguages = false

// pasteNode reads the program as Node does. make docs-check also runs it, with the
// packages that it imports.
func (v *visitor) pasteNode(text string) string {
	v.t.Helper()
	require.NoError(v.t, os.WriteFile(filepath.Join(v.dir, "page.mjs"), []byte(text), 0o600))
	return v.run("node --check page.mjs")
}
