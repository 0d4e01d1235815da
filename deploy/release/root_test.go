//go:build ship

package release_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// debian is the release of Debian in which packages are installed and images are built.
const debian = "bookworm"

// patience bounds how long a test waits for something that always comes. It only
// ends a test that hangs.
const patience = 3 * time.Minute

// mustRun returns what a command prints, and ends the test if it fails.
func mustRun(t testing.TB, name string, args ...string) string {
	t.Helper()
	return mustFinish(t, exec.CommandContext(t.Context(), name, args...))
}

// mustFinish runs a command, and returns its standard output.
func mustFinish(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var out, all bytes.Buffer
	cmd.Stdout, cmd.Stderr = tee{&out, &all}, &all
	require.NoError(t, cmd.Run(), "%s\n%s", strings.Join(cmd.Args, " "), &all)
	return out.String()
}

// tee writes to two buffers. The second one also gets the errors, in their order.
type tee struct{ one, both *bytes.Buffer }

func (w tee) Write(p []byte) (int, error) {
	w.one.Write(p)
	return w.both.Write(p)
}

// topFolder returns the folder of the repository.
func topFolder(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	return dir
}

// mustBase returns the tar of a bare Debian. It is made once, and `make clean` deletes it.
// DEBIAN_MIRROR names another mirror than Debian's own.
func mustBase(t testing.TB) string {
	t.Helper()
	base := filepath.Join(topFolder(t), "bin", "ship", debian+".tar")
	if _, err := os.Stat(base); err == nil {
		return base
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(base), 0o755))
	args := []string{"--quiet", "--variant=minbase", debian, base + ".new"}
	if mirror := os.Getenv("DEBIAN_MIRROR"); mirror != "" {
		args = append(args, mirror)
	}
	mustRun(t, "mmdebstrap", append([]string{"--format=tar"}, args...)...)
	require.NoError(t, os.Rename(base+".new", base))
	return base
}

// A root is the folder of a whole system, in which commands run.
type root string

// newRoot unpacks a bare Debian, in which no package starts a service.
func newRoot(t testing.TB) root {
	t.Helper()
	require.Zero(t, os.Getuid(), "only root can change its root folder: run this as root")
	base, r := mustBase(t), root(t.TempDir())
	require.NoError(t, os.Chmod(string(r), 0o755))
	mustRun(t, "tar", "-xf", base, "-C", string(r))
	resolver, err := os.ReadFile("/etc/resolv.conf")
	require.NoError(t, err)
	r.write(t, "/etc/resolv.conf", string(resolver), 0o644)
	r.write(t, "/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755)
	return r
}

func (r root) path(name string) string { return filepath.Join(string(r), name) }

func (r root) write(t testing.TB, name, text string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(r.path(name)), 0o755))
	require.NoError(t, os.WriteFile(r.path(name), []byte(text), mode))
	require.NoError(t, os.Chmod(r.path(name), mode))
}

func (r root) read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(r.path(name))
	require.NoError(t, err)
	return string(text)
}

// usualPath is PATH in a root.
const usualPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// sh runs a script as root in the root, and returns what it prints.
func (r root) sh(t testing.TB, script string) string {
	t.Helper()
	cmd := r.command(t, place{}, "/bin/sh", "-euc", script)
	cmd.Env = []string{usualPath, "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	return mustFinish(t, cmd)
}

// A place says how a command sees its root.
type place struct {
	user     string // name or number, with a group after a colon; empty: root
	readOnly bool   // but for the volume
	volume   string // a folder that can be written, in the root
	strict   bool   // no new privileges
}

// enter mounts what a program expects of a system, for this command alone, and runs it. Its
// devices are new ones: a folder of the machine is never in the root.
const enter = `
root=$1 volume=$2 ro=$3 strict=$4 user=$5 programs=$PATH; shift 5
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p "$root/proc" "$root/dev" "$root/tmp"
mount --bind "$root" "$root"
mount --make-private "$root"
if [ -n "$volume" ]; then mount --bind "$root$volume" "$root$volume"; fi
if [ -n "$ro" ]; then mount -o remount,bind,ro "$root"; fi
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3; mknod -m 666 "$root/dev/zero" c 1 5; mknod -m 666 "$root/dev/random" c 1 8; mknod -m 666 "$root/dev/urandom" c 1 9
ln -s /proc/self/fd "$root/dev/fd"; mkdir -m 1777 "$root/dev/shm"
chroot=$(command -v chroot) setpriv=$(command -v setpriv) PATH=$programs
if [ -n "$strict" ]; then exec "$setpriv" --no-new-privs "$chroot" --userspec="$user" "$root" "$@"; fi
exec "$chroot" --userspec="$user" "$root" "$@"
`

// command returns a command that runs in the root. Its process is the program itself, so a
// signal reaches it.
func (r root) command(t testing.TB, p place, program string, args ...string) *exec.Cmd {
	t.Helper()
	flag := map[bool]string{true: "yes"}
	user := p.user
	if user == "" {
		user = "0:0"
	}
	return exec.CommandContext(t.Context(), "unshare", append([]string{
		"--mount", "--propagation", propagation(t), "/bin/sh", "-euc", enter, "enter", string(r), p.volume, flag[p.readOnly], flag[p.strict], user, program,
	}, args...)...)
}

// propagation returns how a command gets mounts of its own. A root that was changed already can't
// be made private as a whole.
func propagation(t testing.TB) string {
	t.Helper()
	if exec.CommandContext(t.Context(), "unshare", "--mount", "true").Run() == nil {
		return "private"
	}
	return "unchanged"
}
