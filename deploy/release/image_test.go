//go:build ship

package release_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An image is what buildah made of a target of the Dockerfile.
type image struct {
	root
	User, StopSignal     string
	Env, Entrypoint, Cmd []string
	Healthcheck          struct{ Test []string }
}

// store is the folder of buildah's images in a test.
type store string

func (s store) buildah(t testing.TB, args ...string) string {
	t.Helper()
	line := append([]string{"buildah", "--root", string(s) + "/images", "--runroot", string(s) + "/run", "--storage-driver", "vfs"}, args...)
	if propagation(t) == "unchanged" {
		line = append([]string{"unshare", "--mount", "--propagation", "unchanged", "/bin/sh", "-euc", again, "again", newMountPoint(t), topFolder(t)}, line...)
	}
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Dir = topFolder(t)
	cmd.Env = append(os.Environ(), "BUILDAH_ISOLATION=chroot")
	return strings.TrimSpace(mustFinish(t, cmd))
}

// again changes the root to the same one, as a mount, because buildah needs a root that is a mount.
const again = `
mount --bind "$1" "$1"
mount --make-private "$1"
mkdir "$1/root"
mount --rbind / "$1/root"
mount --make-rprivate "$1/root"
root=$1/root in=$2; shift 2
exec chroot "$root" /bin/sh -euc 'cd "$0"; exec "$@"' "$in" "$@"
`

// newMountPoint returns an empty folder. It is never deleted with its contents, which would be all
// files of the machine if a mount was still there.
func newMountPoint(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hookladder-root-")
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = os.Remove(filepath.Join(dir, "root"))
		_ = os.Remove(dir)
	})
	return dir
}

// newStore imports the images from which the Dockerfile starts: a bare Debian in place of Debian's
// image, and with this machine's certificates in place of Go's. No registry is needed.
func newStore(t testing.TB) store {
	t.Helper()
	require.Zero(t, os.Getuid(), "only root can change its root folder: run this as root")
	s := store(t.TempDir())
	c := s.buildah(t, "from", "scratch")
	s.buildah(t, "add", "--quiet", c, mustBase(t), "/")
	s.buildah(t, "commit", "--quiet", "--format", "docker", c, "localhost/base")
	s.buildah(t, "config", "--env", "PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--env", "GOPATH=/go", "--env", "GOTOOLCHAIN=local", c)
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GOFLAGS"} {
		s.buildah(t, "config", "--env", name+"="+strings.TrimSpace(mustRun(t, "go", "env", name)), c)
	}
	certificates := os.Getenv("SSL_CERT_FILE")
	if certificates == "" {
		certificates = "/etc/ssl/certs/ca-certificates.crt"
	}
	s.buildah(t, "copy", "--quiet", c, certificates, "/etc/ssl/certs/ca-certificates.crt")
	s.buildah(t, "commit", "--quiet", "--format", "docker", "--rm", c, "localhost/golang")
	return s
}

// build runs the Dockerfile up to a target; empty: to its end. Go itself and its caches are those
// of this machine.
func (s store) build(t testing.TB, target string) image {
	t.Helper()
	args := []string{"bud", "--quiet", "--format", "docker", "--tag", "localhost/hookladder" + target, "--build-arg", "GO_IMAGE=localhost/golang", "--build-arg", "BASE_IMAGE=localhost/base", "--build-arg", "REVISION=" + stamped}
	for name, inside := range map[string]string{"GOROOT": "/usr/local/go", "GOMODCACHE": "/go/pkg/mod", "GOCACHE": "/root/.cache/go-build"} {
		args = append(args, "--volume", strings.TrimSpace(mustRun(t, "go", "env", name))+":"+inside+":rw")
	}
	if target != "" {
		args = append(args, "--target", target)
	}
	s.buildah(t, append(args, ".")...)
	var found struct{ Docker struct{ Config image } }
	require.NoError(t, json.Unmarshal([]byte(s.buildah(t, "inspect", "--type", "image", "localhost/hookladder"+target)), &found))
	i := found.Docker.Config
	i.root = root(s.buildah(t, "mount", s.buildah(t, "from", "--pull-never", "localhost/hookladder"+target)))
	return i
}

// command returns a command as an engine runs it in the image. Only the volume can be written, and
// its user gains no rights. Its environment is the image's, with more settings.
func (i image) command(t testing.TB, volume string, env []string, line ...string) *exec.Cmd {
	t.Helper()
	cmd := i.root.command(t, place{user: i.User, readOnly: true, volume: volume, strict: true}, line[0], line[1:]...)
	cmd.Env = append(append([]string{}, i.Env...), env...)
	return cmd
}

// settings are the settings that a test needs beside the image's, because it shares the ports of this machine.
func settings(address, receivers string) []string {
	return []string{
		"PORT=" + address[strings.LastIndex(address, ":")+1:], "METRICS_LISTEN=" + receivers, "SIGNING_SECRET=" + secret,
		"API_KEYS=" + key + ":admin:ops", "ALLOW_NETS=127.0.0.0/8", "HOOKLADDER_KEY=" + key,
	}
}

func TestImagesDeliverWithoutRights(t *testing.T) {
	s := newStore(t)
	t.Run("with its own Redis", func(t *testing.T) {
		i := s.build(t, "")
		require.FileExists(t, i.path("/usr/bin/redis-check-aof"))
		require.Equal(t, "700 65532:65532\n", i.sh(t, "stat -c '%a %u:%g' /data"))
		i.check(t, "/data", "DATA_DIR=/data")
	})
	t.Run("slim", func(t *testing.T) {
		i := s.build(t, "slim")
		require.Equal(t, []string{"etc/ssl/certs/ca-certificates.crt", "usr/local/bin/hookladder"}, i.files(t, "usr/share/doc/hookladder/licences"))
		i.check(t, "", "REDIS_URL="+newRedis(t))

		without, err := i.command(t, "", settings(freePort(t), freePort(t)), append(i.Entrypoint, i.Cmd...)...).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 2, exit.ExitCode(), "a wrong setting")
		require.Contains(t, string(without), "set a Redis that stores the messages, such as REDIS_URL=")
		without, _ = i.command(t, "", append(settings(freePort(t), freePort(t)), "DATA_DIR=/data"), append(i.Entrypoint, i.Cmd...)...).CombinedOutput()
		require.Contains(t, string(without), "or name a Redis with REDIS_URL")
	})
}

// check starts the image, delivers a message, runs the health check, and stops it.
func (i image) check(t *testing.T, volume, store string) {
	t.Helper()
	require.Equal(t, []string{"hookladder", "serve"}, append(append([]string{}, i.Entrypoint...), i.Cmd...))
	require.Equal(t, "SIGTERM", i.StopSignal)
	require.DirExists(t, i.path("/usr/share/doc/hookladder/licences/go"))
	address := freePort(t)
	env := append(settings(address, freePort(t)), store)
	version := mustFinish(t, i.command(t, volume, env, "hookladder", "version"))
	require.Contains(t, version, "("+stamped[:12]+"), "+runtime.Version())

	s := start(t, i.command(t, volume, env, append(i.Entrypoint, i.Cmd...)...), address)
	require.Equal(t, []string{"65532", "65532", "65532", "65532"}, s.processStatus(t, "Uid"))
	require.Equal(t, []string{"1"}, s.processStatus(t, "NoNewPrivs"))
	require.Equal(t, []string{strings.Repeat("0", 16)}, s.processStatus(t, "CapEff"))
	require.Error(t, os.WriteFile(fmt.Sprintf("/proc/%d/root/written", s.cmd.Process.Pid), nil, 0o600), "not even by root")
	s.deliver(t, newReceiver(t), "order_17")
	require.Equal(t, "CMD", i.Healthcheck.Test[0])
	mustFinish(t, i.command(t, volume, env, i.Healthcheck.Test[1:]...))
	s.stop(t)
	require.Error(t, i.command(t, volume, env, i.Healthcheck.Test[1:]...).Run(), "it is not healthy any more")
}

// files lists the files of an image, without one folder.
func (i image) files(t testing.TB, without string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(string(i.root), func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(name, i.path(without)) {
			found = append(found, strings.TrimPrefix(name, string(i.root)+"/"))
		}
		return err
	}))
	return found
}

// newRedis starts a Redis on this machine, and returns its URL.
func newRedis(t testing.TB) string {
	t.Helper()
	address := freePort(t)
	_, port, _ := strings.Cut(address, ":")
	cmd := exec.CommandContext(t.Context(), "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir", t.TempDir())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	until(t, func() error {
		return exec.CommandContext(t.Context(), "redis-cli", "-p", port, "ping").Run()
	})
	return "redis://" + address
}
