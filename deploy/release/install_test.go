//go:build ship

package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// A proxy of modules has the checkout as a version, with the files that a proxy would take from
// git. So a file that is not in git, or in another module, is missing.
func TestGoInstallBuildsTheProgramWithItsVersion(t *testing.T) {
	version := module.Version{Path: "github.com/hookladder/hookladder", Version: "v" + newer}
	top, proxy, gopath := topFolder(t), t.TempDir(), t.TempDir()
	dir := filepath.Join(proxy, filepath.FromSlash(version.Path), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	mod, err := os.ReadFile(filepath.Join(top, "go.mod"))
	require.NoError(t, err)
	require.NotContains(t, string(mod), "replace ", "go install refuses such a module")
	put("list", version.Version+"\n")
	put(version.Version+".info", `{"Version":"`+version.Version+`","Time":"2026-11-27T00:00:00Z"}`)
	put(version.Version+".mod", string(mod))
	archive, err := os.Create(filepath.Join(dir, version.Version+".zip"))
	require.NoError(t, err)
	require.NoError(t, zip.CreateFromDir(archive, version, mustCheckout(t, top)))
	require.NoError(t, archive.Close())

	env := func(name string) string { return strings.TrimSpace(mustRun(t, "go", "env", name)) }
	cmd := in(t.TempDir(), exec.CommandContext(t.Context(), "go", "install", version.Path+"/cmd/hookladder@latest"))
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOBIN="+gopath, "CGO_ENABLED=0", "GOFLAGS=-modcacherw -trimpath "+env("GOFLAGS"), // compiled like a release, whose packages are there
		"GOSUMDB=off", // the checkout's go.sum has the sums
		"GOMODCACHE="+filepath.Join(gopath, "mod"),
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(env("GOMODCACHE"))+"/cache/download,"+env("GOPROXY"))
	mustFinish(t, cmd)
	binary := filepath.Join(gopath, "hookladder")
	require.Equal(t, "hookladder "+newer+", "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH+"\n", mustRun(t, binary, "version"))
	require.Contains(t, mustRun(t, binary, "outbox", "schema"), "hookladder_publish", "embedded files")
}

// mustCheckout returns a folder with the files of the repository as they are now, committed or not,
// but without those that git ignores.
func mustCheckout(t testing.TB, top string) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GIT_INDEX_FILE", filepath.Join(t.TempDir(), "index"))
	for _, args := range [][]string{{"read-tree", "HEAD"}, {"add", "-A"}, {"checkout-index", "-a", "--prefix=" + dir + "/"}} {
		mustFinish(t, in(top, exec.CommandContext(t.Context(), "git", args...)))
	}
	return dir
}
