package embedded_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
)

func TestItKeepsWhatItWasGiven(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.start()
	first.set("a", "1")
	pid := first.pid()
	first.end()
	require.True(t, gone(pid), "it has ended when Close returns")
	require.Equal(t, "1", r.start().get("a"))
	require.Zero(t, r.says("ready to exit"), "a farewell is no warning")
}

func TestItIsSetToLoseNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.start()
	for name, want := range map[string]string{
		"appendonly": "yes", "appendfsync": "everysec", "save": "", "maxmemory-policy": "noeviction", "port": "0",
		"aof-load-truncated": "no", "crash-log-enabled": "no",
	} {
		set, err := s.ConfigGet(t.Context(), name).Result()
		require.NoError(t, err)
		require.Equal(t, want, set[name], name)
	}
	if memory := embedded.Memory(); memory != 0 {
		require.Greater(t, memory, int64(64<<20))
	}
	s.end()
	o := r.options()
	o.Fsync = true
	server, err := embedded.Start(t.Context(), o)
	require.NoError(t, err)
	set, err := r.running(server).ConfigGet(t.Context(), "appendfsync").Result()
	require.NoError(t, err)
	require.Equal(t, "always", set["appendfsync"])
}

func TestNobodyElseMayReadIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, os.MkdirAll(r.file(), 0o755)) // as an image may have left it
	s := r.start()
	for _, name := range []string{r.file(), strings.TrimPrefix(s.server.URL(), "unix://")} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, name)
	}
	if env, err := os.ReadFile("/proc/" + itoa(s.pid()) + "/environ"); err == nil { // where the system tells
		require.Empty(t, env, "what the environment holds is not its business")
	}
}

// A link in the folder would have another file written, or another folder's rights changed.
func TestALinkInItsFolderIsNotFollowed(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.Mkdir(target, 0o755))
	r := newRig(t)
	require.NoError(t, os.MkdirAll(r.dir, 0o700))
	require.NoError(t, os.Symlink(target, r.file()))
	require.Contains(t, r.refuses(), "is a link or a file, and not a folder")
	info, err := os.Stat(target)
	require.NoError(t, err)
	require.EqualValues(t, 0o755, info.Mode().Perm())

	require.NoError(t, os.Remove(r.file()))
	require.NoError(t, os.Mkdir(r.file(), 0o700))
	mine := filepath.Join(target, "mine")
	mustWrite(t, mine, "kept", 0o600)
	require.NoError(t, os.Symlink(mine, r.file("lock")))
	require.Contains(t, r.refuses(), "must be a file, not a link")
	text, err := os.ReadFile(mine)
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
}

func TestOneThatDiesIsStartedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.start()
	for n := range 3 {
		s.set("a", itoa(n))
		pid := s.pid()
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		require.Eventually(t, func() bool {
			now, err := pidOf(context.WithoutCancel(t.Context()), s.Client) // the old one may still answer
			return err == nil && now != pid
		}, patience, 5*time.Millisecond)
		require.Equal(t, itoa(n), s.get("a"))
	}
	require.Equal(t, 3, r.says(`"embedded redis died, starting it again","err":"redis-server ended: signal: killed`))
}

// A server that can't be started again is tried until it can.
func TestOneThatCantBeStartedAgainIsTriedOnAndOn(t *testing.T) {
	path, err := exec.LookPath("redis-server")
	require.NoError(t, err)
	programs := t.TempDir()
	link := filepath.Join(programs, "redis-server")
	require.NoError(t, os.Symlink(path, link))
	t.Setenv("PATH", programs)
	r := newRig(t)
	s := r.start()
	s.set("a", "1")
	pid := s.pid()
	require.NoError(t, os.Remove(link))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return r.says("starting it again") >= 3 }, patience, 5*time.Millisecond)
	require.NoError(t, os.Symlink(path, link))
	require.Eventually(t, func() bool { return s.Ping(context.WithoutCancel(t.Context())).Err() == nil }, patience, 5*time.Millisecond)
	require.Equal(t, "1", s.get("a"))
}

func TestOneFolderHasOneUser(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.start()
	s.set("a", "1")
	require.Regexp(t, `data is in use by another process \(pid \d+\): each process needs its own folder`, r.refuses())
	require.Equal(t, "1", s.get("a"), "the first one goes on")
	require.Equal(t, s.server.URL(), embedded.Running(t.Context(), r.dir), "who only wants to look is told where it is")
	s.end()
	require.Empty(t, embedded.Running(t.Context(), r.dir))
	require.Empty(t, embedded.Running(t.Context(), t.TempDir()))
	require.Equal(t, "1", r.start().get("a"))
}

func TestASocketWhosePathIsTooLongLiesElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.dir = filepath.Join(r.dir, strings.Repeat("long ", 25)) // and a space in the name does no harm
	s := r.start()
	s.set("a", "1")
	socket := strings.TrimPrefix(s.server.URL(), "unix://")
	require.Less(t, len(socket), 104)
	require.NoFileExists(t, r.file("redis.sock"))
	s.end()
	require.NoDirExists(t, filepath.Dir(socket), "it is taken away")
	require.Equal(t, "1", r.start().get("a"))
}

func TestAStartThatMakesNoSenseSaysWhatHelps(t *testing.T) {
	r := newRig(t)
	mustWrite(t, filepath.Join(t.TempDir(), "file"), "", 0o600)
	r.dir = filepath.Join(t.TempDir(), "file")
	mustWrite(t, r.dir, "", 0o600)
	require.Contains(t, r.refuses(), "make data folder: mkdir "+r.dir)

	r = newRig(t)
	require.Contains(t, r.refuses("--no-such-setting", "1"), "no-such-setting")
	s := r.start() // nothing is left of it that would be in the way
	s.end()

	programs := t.TempDir()
	t.Setenv("PATH", programs)
	require.Contains(t, r.refuses(), "neither redis-server nor valkey-server is installed: install one (apt-get install redis-server")
	mustWrite(t, filepath.Join(programs, "valkey-server"), "#!/bin/sh\necho '1:M 21 Nov 2026 10:00:57.006 # out of luck'\nexit 3\n", 0o700)
	require.Contains(t, r.refuses(), "valkey-server ended: exit status 3: out of luck")
}

// fill gives it keys, of which it loads 1,024 at a time before it looks who asks.
func (r *rig) fill(keys int) {
	r.t.Helper()
	s := r.start()
	pipe := s.Pipeline()
	for n := range keys {
		pipe.Set(r.t.Context(), itoa(n), "x", 0)
	}
	_, err := pipe.Exec(r.t.Context())
	require.NoError(r.t, err)
	s.end()
}

func TestALongLoadIsWaitedForAndToldOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(4000)
	require.Equal(t, "x", r.start("--key-load-delay", "100").get("3999")) // µs a key
	require.Equal(t, 1, r.says("embedded redis loads its file"))
}

func TestALoadCanBeGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(4000)
	ctx, stop := context.WithCancel(t.Context())
	o := r.options("--key-load-delay", "300")
	o.Log = slog.New(onLine{Handler: o.Log.Handler(), text: "embedded redis loads its file", do: stop})
	_, err := embedded.Start(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "x", r.start().get("3999"))
}

// onLine does something when a line is logged.
type onLine struct {
	slog.Handler
	text string
	do   func()
}

func (o onLine) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == o.text {
		o.do()
	}
	return o.Handler.Handle(ctx, record)
}

// A power loss may cut the last change in its middle: it was not acknowledged.
func TestAFileThatWasCutIsLoadedWithoutTheLastChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.start()
	s.set("whole", "1")
	_, err := s.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Set(t.Context(), "first", "1", 0)
		p.Set(t.Context(), "second", strings.Repeat("x", 100), 0)
		return nil
	})
	require.NoError(t, err)
	s.end()
	info, err := os.Stat(r.appended())
	require.NoError(t, err)
	require.NoError(t, os.Truncate(r.appended(), info.Size()-50)) // in the second command
	for n := range 3 {
		s = r.start()
		require.Equal(t, "1", s.get("whole"))
		require.Zero(t, s.Exists(t.Context(), "first", "second").Val(), "start %d", n)
		s.set("whole", "1") // what follows must not complete it
		s.end()
	}
	require.Equal(t, 1, r.says("a crash cut the last change"), r.log.String())
	require.Equal(t, 1, r.says("This will shrink the AOF"), "it is told what was lost: "+r.log.String())
}

func TestAFileThatIsDamagedIsRefusedWithTheCure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.start()
	s.set("before", "1")
	s.set("damaged", strings.Repeat("x", 100))
	s.set("after", "1")
	s.end()
	text, err := os.ReadFile(r.appended())
	require.NoError(t, err)
	mustWrite(t, r.appended(), strings.Replace(string(text), "$7\r\ndamaged", "?7\r\ndamaged", 1), 0o600)
	why := r.refuses()
	require.Contains(t, why, "its append-only file is damaged: copy "+r.file())
	require.Contains(t, why, "-check-aof --fix "+r.file("appendonlydir", "appendonly.aof.manifest"))
}
