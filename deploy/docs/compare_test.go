package docs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
	require.NoError(t, readAtRelease(page, read("CHANGELOG.md")))
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

// readAtRelease returns an error if the newest version has a day, and the page was not read again in
// that month: the others have changed meanwhile.
func readAtRelease(page, changelog string) error {
	written := regexp.MustCompile(`This page was written in ([A-Z][a-z]+ \d{4})\.`).FindStringSubmatch(page)
	if written == nil {
		return errors.New("the page does not say when it was written")
	}
	newest := regexp.MustCompile(`(?m)^## \S+ - (.+)$`).FindStringSubmatch(changelog)
	if newest == nil || newest[1] == "unreleased" {
		return nil
	}
	day, err := time.Parse(time.DateOnly, newest[1])
	if err != nil {
		return fmt.Errorf("the day of the newest version: %w", err)
	}
	if month := day.Format("January 2006"); month != written[1] {
		return fmt.Errorf("the release is of %s, and the page of %s: read the others again", month, written[1])
	}
	return nil
}

func TestTheComparisonIsReadAgainForARelease(t *testing.T) {
	const page = "This page was written in November 2026."
	require.NoError(t, readAtRelease(page, "## 1.2.3 - unreleased\n\n## 1.2.2 - 2025-01-01\n"))
	require.NoError(t, readAtRelease(page, "## 1.2.3 - 2026-11-30\n"))
	require.ErrorContains(t, readAtRelease(page, "## 1.2.3 - 2026-12-01\n"), "the release is of December 2026")
	require.ErrorContains(t, readAtRelease("", "## 1.2.3 - unreleased\n"), "does not say")
}
