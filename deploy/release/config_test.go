// Package release_test checks how a release is made: the files of a snapshot, its packages in a
// bare Debian, an installation by `go install`, and the images. Most of its tests need root, and
// programs that other tests do not need; `make release-check` and `make image-check` run them.
package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// configuration is the part of .goreleaser.yaml that the tests use.
type configuration struct {
	Dist   string
	Builds []struct{ Goos, Goarch []string }
	NFPMs  []map[string]any `yaml:"nfpms"`
	SBOMs  []struct{ Args []string }
}

func mustReadConfiguration(t testing.TB) (c configuration) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", ".goreleaser.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &c))
	require.Len(t, c.Builds, 1)
	require.Len(t, c.NFPMs, 1)
	return c
}

func TestAReleaseHasEachPlatform(t *testing.T) {
	c := mustReadConfiguration(t)
	require.ElementsMatch(t, []string{"linux", "darwin", "windows"}, c.Builds[0].Goos)
	require.ElementsMatch(t, []string{"amd64", "arm64"}, c.Builds[0].Goarch)
}

// The shells of Debian and Alpine are small ones.
func TestTheScriptsOfThePackagesAreForAnyShell(t *testing.T) {
	files, err := filepath.Glob("*.sh")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "#!/bin/sh\n"), file)
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-n", file).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// Each line of the example is a comment, so a service without settings says what it needs.
func TestTheExampleSetsNothingAndNamesSettingsThatExist(t *testing.T) {
	text, err := os.ReadFile("hookladder.env")
	require.NoError(t, err)
	documented, err := os.ReadFile(filepath.Join("..", "docs", "settings.md"))
	require.NoError(t, err)
	named := 0
	for line := range strings.Lines(string(text)) {
		require.True(t, line == "\n" || strings.HasPrefix(line, "#"), line)
		if m := regexp.MustCompile(`^#([A-Z_]+)=`).FindStringSubmatch(line); m != nil {
			named++
			require.Contains(t, string(documented), "`"+m[1]+"`", "settings.md does not have it")
		}
	}
	require.GreaterOrEqual(t, named, 6)
}

// A tag that the sources do not name is not released.
func TestATagIsReleasedOnlyIfTheSourcesNameIt(t *testing.T) {
	top := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(top, name), []byte(text), 0o755))
	}
	script, err := os.ReadFile(filepath.Join("..", "..", ".ci", "tagged"))
	require.NoError(t, err)
	put(".ci/tagged", string(script))
	tagged := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), filepath.Join(top, ".ci", "tagged"), args...).CombinedOutput()
		require.Equal(t, err == nil, len(out) == 0, "%v: %s", err, out)
		return string(out)
	}
	put("cmd/hookladder/main.go", "const development = \"1.2.3\"\n")
	put("CHANGELOG.md", "## 1.2.3 - unreleased\n")
	require.Contains(t, tagged("1.2.4", "false"), `the tag`)
	require.Contains(t, tagged("1.2.3", "false"), `no section "## 1.2.3 - <day>"`)
	require.Empty(t, tagged("1.2.3-snapshot", "true"))
	put("CHANGELOG.md", "## 1.2.3 - 2026-11-27\n")
	require.Empty(t, tagged("1.2.3", "false"))
}

func TestTheReadmeBeginsWithTheInstallation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	first := strings.Join(strings.Split(string(text), "\n")[:20], "\n")
	require.Contains(t, first, "go install github.com/hookladder/hookladder/cmd/hookladder@latest")
}
