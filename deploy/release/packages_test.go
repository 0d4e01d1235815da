//go:build ship

package release_test

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// nfpm makes the packages of goreleaser. Later versions of its command need a module that not
// every proxy has.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"

// Two versions of the packages, of which the second one is an upgrade.
const (
	older = "0.2.0"
	newer = "0.2.1"
)

// stamped is the commit of a binary that these tests build.
const stamped = "0123456789abcdef"

// mustBuild builds the program as .goreleaser.yaml does, and returns its path.
func mustBuild(t testing.TB, version string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "hookladder")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+version+" -X main.builtFrom="+stamped, "-o", binary, "./cmd/hookladder")
	cmd.Dir = topFolder(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	mustFinish(t, cmd)
	require.Equal(t, fmt.Sprintf("hookladder %s (%s), %s linux/%s\n", version, stamped[:12], runtime.Version(), runtime.GOARCH), mustRun(t, binary, "version"))
	return binary
}

// mustPackage makes a package of this machine's architecture from the section nfpms of
// .goreleaser.yaml, and returns its path.
func mustPackage(t testing.TB, format, version, binary string) string {
	t.Helper()
	top, dir := topFolder(t), t.TempDir()
	text, err := yaml.Marshal(nfpmOf(t, version, binary))
	require.NoError(t, err)
	file := filepath.Join(dir, "nfpm.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.NoError(t, licences())
	cmd := in(top, exec.CommandContext(t.Context(), "go", "run", "-trimpath", nfpm, "package", "--config", file, "--packager", format, "--target", dir))
	cmd.Env = append(os.Environ(), "GOWORK=off")
	mustFinish(t, cmd)
	found, err := filepath.Glob(filepath.Join(dir, "*."+format))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// licences collects the texts that the packages contain.
var licences = sync.OnceValue(func() error {
	out, err := in(filepath.Join("..", ".."), exec.Command(".ci/licences", "bin/licences", "linux", "darwin", "windows")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("collect the licences: %w: %s", err, out)
	}
	return nil
})

func in(dir string, cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = dir
	return cmd
}

// nfpmOf returns the section in nfpm's own words, with the binary that goreleaser would add.
func nfpmOf(t testing.TB, version, binary string) map[string]any {
	t.Helper()
	c := mustReadConfiguration(t).NFPMs[0]
	c["name"], c["version"], c["platform"], c["arch"] = c["package_name"], version, "linux", runtime.GOARCH
	for _, goreleaser := range []string{"package_name", "formats", "file_name_template"} {
		require.Contains(t, c, goreleaser)
		delete(c, goreleaser)
	}
	for _, of := range c["overrides"].(map[string]any) {
		o := of.(map[string]any)
		o["depends"] = o["dependencies"]
		delete(o, "dependencies")
	}
	c["contents"] = append(c["contents"].([]any), map[string]any{"src": binary, "dst": "/usr/bin/hookladder", "file_info": map[string]any{"mode": 0o755}})
	return c
}

// contents are the files and folders of each package that matter, with their permissions.
var contents = map[string]string{
	"/usr/bin/hookladder":                           "-rwxr-xr-x root",
	"/usr/lib/systemd/system/hookladder.service":    "-rw-r--r-- root",
	"/etc/hookladder/hookladder.env":                "-rw------- root",
	"/etc/hookladder/keys":                          "drwx------ root",
	"/usr/share/doc/hookladder/copyright":           "-rw-r--r-- root",
	"/usr/share/doc/hookladder/README.md":           "-rw-r--r-- root",
	"/usr/share/doc/hookladder/licences/go/LICENSE": "-rw-r--r-- root",
}

func TestPackagesHaveTheSameContents(t *testing.T) {
	binary := mustBuild(t, older)
	rpm := mustPackage(t, "rpm", older, binary)
	require.Equal(t, contents, only(listed(mustRun(t, "rpm", "-qplv", rpm), 0, 2, 8)))
	require.Equal(t, "/etc/hookladder/hookladder.env\n", mustRun(t, "rpm", "-qpc", rpm), "the administrator's own")
	require.Contains(t, mustRun(t, "rpm", "-qp", "--requires", rpm), "/usr/sbin/useradd")
	scripts := mustRun(t, "rpm", "-qp", "--scripts", rpm)
	for _, line := range []string{"useradd --system", "systemctl try-restart", "systemctl --no-reload stop", "kept its data"} {
		require.Contains(t, scripts, line)
	}

	deb := mustPackage(t, "deb", older, binary)
	require.Equal(t, contents, only(listed(mustRun(t, "dpkg-deb", "-c", deb), 0, 1, 5)))

	apk := readAPK(t, mustPackage(t, "apk", older, binary))
	for name := range contents {
		require.Contains(t, apk, strings.TrimPrefix(name, "/"))
	}
	for _, script := range []string{".pre-install", ".post-install", ".pre-upgrade", ".post-upgrade", ".pre-deinstall", ".post-deinstall", ".PKGINFO"} {
		require.Contains(t, apk, script)
	}
	require.Equal(t, int64(0o700), apk["etc/hookladder/keys"])
	require.Equal(t, int64(0o600), apk["etc/hookladder/hookladder.env"])
}

// listed reads a list of files, one a line: their permissions, owners and names are the columns.
func listed(text string, mode, owner, name int) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > name {
			own, _, _ := strings.Cut(words[owner], "/")
			found["/"+strings.Trim(strings.TrimPrefix(words[name], "."), "/")] = words[mode] + " " + own
		}
	}
	return found
}

// only keeps the files that the test compares.
func only(all map[string]string) map[string]string {
	found := map[string]string{}
	for name := range contents {
		if mode, ok := all[name]; ok {
			found[name] = mode
		}
	}
	return found
}

// readAPK returns the permissions of all files in a package of Alpine. It is several streams of
// gzip, each with a part of one archive.
func readAPK(t testing.TB, file string) map[string]int64 {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	found := map[string]int64{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return found
		}
		require.NoError(t, err)
		found[strings.TrimSuffix(h.Name, "/")] = h.Mode & 0o777
	}
}
