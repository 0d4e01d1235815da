package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page that compares us with others is not corrected by the change that makes it wrong.
func TestTheComparisonIsTrueOfHookladderItself(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(top(t), path))
		require.NoError(t, err)
		return string(text)
	}
	page := read("deploy/docs/compare.md")
	version := regexp.MustCompile(`(?m)^appVersion: (\d+\.\d+)\.`).FindStringSubmatch(read("deploy/chart/Chart.yaml"))
	require.NotNil(t, version)
	require.Contains(t, page, "Hookladder is young: version "+version[1]+".")
	require.NotRegexp(t, "(?i)helm", page, "there is a chart: it is nobody's advantage")
	require.Contains(t, read("deploy/docs/traces.md"), "OpenTelemetry")
	require.NotContains(t, page, "OpenTelemetry", "there are traces: they are nobody's advantage")
}
