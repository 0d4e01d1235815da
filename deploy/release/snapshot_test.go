//go:build ship

package release_test

import (
	"archive/zip"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests read the files that `make release-snapshot` has made.

// dist returns the folder of the files, and the version in their names.
func dist(t testing.TB) (dir, version string) {
	t.Helper()
	dir = filepath.Join(topFolder(t), filepath.FromSlash(mustReadConfiguration(t).Dist))
	var metadata struct{ Version, Commit string }
	text, err := os.ReadFile(filepath.Join(dir, "metadata.json"))
	require.NoError(t, err, "make release-snapshot makes it")
	require.NoError(t, json.Unmarshal(text, &metadata))
	require.Regexp(t, `^\d+\.\d+\.\d+-snapshot$`, metadata.Version)
	require.Equal(t, strings.TrimSpace(mustRun(t, "git", "rev-parse", "HEAD")), metadata.Commit, "these are the files of another commit")
	return dir, metadata.Version
}

// released are the names of all files of a release.
func released(version string) (names []string) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			name := "hookladder_" + version + "_" + system + "_" + arch
			names = append(names, name+map[string]string{"linux": ".tar.gz", "darwin": ".tar.gz", "windows": ".zip"}[system], name+".cdx.json")
		}
	}
	debian := strings.Replace(version, "-", "~", 1)
	for _, arch := range [][2]string{{"amd64", "x86_64"}, {"arm64", "aarch64"}} {
		names = append(names, "hookladder_"+debian+"_"+arch[0]+".deb", "hookladder-"+debian+"-1."+arch[1]+".rpm",
			"hookladder_"+strings.Replace(version, "-", "_", 1)+"_"+arch[1]+".apk")
	}
	return names
}

func TestSnapshotHasAllFilesWithTheirChecksums(t *testing.T) {
	dir, version := dist(t)
	text, err := os.ReadFile(filepath.Join(dir, "checksums.txt"))
	require.NoError(t, err)
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		require.Len(t, words, 2)
		sums[words[1]] = words[0]
	}
	require.ElementsMatch(t, released(version), slices.Collect(maps.Keys(sums)))
	for name, sum := range sums {
		file, err := os.Open(filepath.Join(dir, name))
		require.NoError(t, err)
		h := sha256.New()
		_, err = io.Copy(h, bufio.NewReader(file))
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Equal(t, sum, hex.EncodeToString(h.Sum(nil)), name)
	}
}

func TestSnapshotHasItsVersionAndCommitInTheBinary(t *testing.T) {
	dir, version := dist(t)
	commit := strings.TrimSpace(mustRun(t, "git", "rev-parse", "HEAD"))
	to := t.TempDir()
	mustRun(t, "tar", "-xzf", filepath.Join(dir, fmt.Sprintf("hookladder_%s_linux_%s.tar.gz", version, runtime.GOARCH)), "-C", to)
	require.Equal(t, fmt.Sprintf("hookladder %s (%s), %s linux/%s\n", version, commit[:12], runtime.Version(), runtime.GOARCH), mustRun(t, filepath.Join(to, "hookladder"), "version"))
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "licences/go/LICENSE"} {
		require.FileExists(t, filepath.Join(to, name))
	}
	modules, err := filepath.Glob(filepath.Join(to, "licences", "github.com", "redis", "go-redis", "*", "LICENSE"))
	require.NoError(t, err)
	require.Len(t, modules, 1)
	windows, err := zip.OpenReader(filepath.Join(dir, "hookladder_"+version+"_windows_arm64.zip"))
	require.NoError(t, err)
	defer windows.Close()
	require.True(t, slices.ContainsFunc(windows.File, func(f *zip.File) bool { return f.Name == "hookladder.exe" }))
}

// The list is read from the binary, so it has the modules that are linked into it.
func TestSnapshotListsTheModulesOfTheBinary(t *testing.T) {
	dir, version := dist(t)
	text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("hookladder_%s_linux_%s.cdx.json", version, runtime.GOARCH)))
	require.NoError(t, err)
	var list struct {
		BOMFormat  string
		Components []struct{ Name, Version, PURL string }
	}
	require.NoError(t, json.Unmarshal(text, &list))
	require.Equal(t, "CycloneDX", list.BOMFormat)
	listed := map[string]string{}
	for _, c := range list.Components {
		listed[c.Name] = c.Version
	}
	cmd := in(topFolder(t), exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/hookladder"))
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	needed := map[string]string{"std": runtime.Version()}
	for line := range strings.Lines(mustFinish(t, cmd)) {
		if words := strings.Fields(line); len(words) == 2 {
			needed[words[0]] = words[1]
		}
	}
	require.Greater(t, len(needed), 20)
	require.Equal(t, needed, listed)
}

// The cask names the archives of macOS and Linux by their checksums.
func TestSnapshotHasACaskForHomebrew(t *testing.T) {
	dir, version := dist(t)
	text, err := os.ReadFile(filepath.Join(dir, "homebrew", "Casks", "hookladder.rb"))
	require.NoError(t, err)
	require.Contains(t, string(text), `version "`+version+`"`)
	require.Len(t, regexp.MustCompile(`sha256 "[0-9a-f]{64}"`).FindAllString(string(text), -1), 4)
	sums, err := os.ReadFile(filepath.Join(dir, "checksums.txt"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`sha256 "([0-9a-f]{64})"`).FindAllStringSubmatch(string(text), -1) {
		require.Regexp(t, m[1]+`  hookladder_`+regexp.QuoteMeta(version)+`_(darwin|linux)_`, string(sums))
	}
	require.Contains(t, string(text), "generate_completions_from_executable")
}
