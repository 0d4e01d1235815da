package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
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
	_, ours, ok := strings.Cut(page, "\n## What Hookladder does differently\n")
	require.True(t, ok)
	ours, others, ok := strings.Cut(ours, "\n## What the others do better\n")
	require.True(t, ok)
	for _, claim := range strings.Split(strings.TrimSpace(ours), "\n- ") {
		require.Regexp(t, `\]\([a-z]+\.md`, claim, "a claim about us leads to the page that has it") // that it exists, the links' test shows
	}
	for _, section := range strings.Split(others, "\n## ")[1:] {
		_, sources, ok := strings.Cut(section, "Sources: ")
		require.True(t, ok, "no source: %.40s", section)
		require.Regexp(t, ` at [0-9a-f]{7}\b|(?:January|February|March|April|May|June|July|August|September|October|November|December) 20\d\d`, sources, "a source has a version or a date")
	}
}
