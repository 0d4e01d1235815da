package console_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy may serve the pages below a path, which a template does not know.
func TestNoTemplateNamesWhereThePagesLie(t *testing.T) {
	all, err := filepath.Glob("templates/*.html")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, file := range all {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, base := range []string{`"/console`, `"/link`} {
			require.NotContains(t, string(text), base, file)
		}
	}
}
