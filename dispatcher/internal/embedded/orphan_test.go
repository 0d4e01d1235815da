package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
)

func itoa(n int) string { return strconv.Itoa(n) }

// victimOf names, in the environment of a copy of this test binary, the folder
// to run a server on until it is killed.
const victimOf = "EMBEDDED_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimOf); dir != "" {
		server, err := embedded.Start(context.Background(), embedded.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(server.URL())
		_, _ = io.ReadAll(os.Stdin) // for ever, but if this test binary ends
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// victim is a process with a server.
type victim struct {
	cmd *exec.Cmd
	rdb *redis.Client
}

func newVictim(t *testing.T, dir string) *victim {
	t.Helper()
	v := &victim{cmd: exec.Command(os.Args[0])}
	v.cmd.Env = append(os.Environ(), victimOf+"="+dir)
	_, err := v.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := v.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, v.cmd.Start())
	t.Cleanup(v.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	opts, err := redis.ParseURL(strings.TrimSpace(line))
	require.NoError(t, err, line)
	v.rdb = redis.NewClient(opts)
	t.Cleanup(func() { _ = v.rdb.Close() })
	return v
}

// kill ends the process as a crash would.
func (v *victim) kill() {
	_ = v.cmd.Process.Kill() // an error says that it has ended
	_ = v.cmd.Wait()
}

func TestAfterAKillTheNextOneGoesOnWithTheSameFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for n := range 3 {
		v := newVictim(t, r.dir)
		require.NoError(t, v.rdb.Set(t.Context(), itoa(n), "x", 0).Err())
		pid := mustPid(t, v.rdb)
		v.kill()
		if runtime.GOOS == "linux" {
			require.Eventually(t, func() bool { return gone(pid) }, patience, time.Millisecond, "the kernel ends it with its parent")
		}
		s := r.start()
		require.Eventually(t, func() bool { return gone(pid) }, patience, time.Millisecond, "two servers on one file would destroy it")
		for m := range n + 1 {
			require.Equal(t, "x", s.get(itoa(m)))
		}
		s.end()
	}
}

// Where the kernel does not end it with its parent, a server goes on alone.
func TestAServerThatOutlivedItsProcessIsEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, os.MkdirAll(r.file(), 0o700))
	lock, err := os.Create(r.file("server.lock"))
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	socketDir, err := os.MkdirTemp("", "orphan")
	require.NoError(t, err)
	socket := filepath.Join(socketDir, "redis.sock")
	_, err = lock.WriteString(socket)
	require.NoError(t, err)
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", r.file(), "--appendonly", "yes", "--save", "")
	cmd.ExtraFiles = []*os.File{lock}
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	orphan := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer orphan.Close()
	require.Eventually(t, func() bool { return orphan.Set(t.Context(), "a", "1", 0).Err() == nil }, patience, 5*time.Millisecond)
	require.NoError(t, lock.Close()) // the orphan alone holds it

	s := r.start()
	require.NoError(t, <-ended, "it was asked to end, not killed")
	require.Equal(t, "1", s.get("a"))
	require.Equal(t, 1, r.says("ending the embedded redis of a process that was killed"))
	require.NoDirExists(t, socketDir, "nor is its socket left")
}

// A server that writes to a slow disk outlives its process for a while.
func TestAServerThatIsSlowToEndIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	v := newVictim(t, r.dir)
	require.NoError(t, v.rdb.Set(t.Context(), "a", "1", 0).Err())
	pid := mustPid(t, v.rdb)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	v.kill()
	const waits = "ending the embedded redis of a process that was killed"
	o := r.options()
	o.Log = slog.New(onLine{Handler: o.Log.Handler(), text: waits, do: func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}})
	server, err := embedded.Start(t.Context(), o)
	_ = syscall.Kill(pid, syscall.SIGCONT) // where no other process waited for it
	require.NoError(t, err)
	require.Equal(t, "1", r.running(server).get("a"))
	require.Equal(t, 1, r.says(waits))
}

func TestAServerThatDoesNotEndIsNotJoined(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, os.MkdirAll(r.file(), 0o700))
	lock, err := os.Create(r.file("server.lock"))
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	ctx, stop := context.WithCancel(t.Context())
	o := r.options()
	o.Log = slog.New(onLine{Handler: o.Log.Handler(), text: "ending the embedded redis of a process that was killed", do: stop})
	_, err = embedded.Start(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "wait for the lock")
	require.NoDirExists(t, r.file("appendonlydir"), "none was started beside it")
}

func TestWhatTheServerSaysGoesIntoOurLog(t *testing.T) {
	log := &lockedBuffer{}
	last, damaged := embedded.Hear(slog.New(slog.NewTextHandler(log, nil)),
		"9815:C 21 Nov 2026 10:00:57.006 # oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo\n9815:C 21 Nov 20",
		"26 10:00:57.006 # Configuration loaded\n",
		"9815:M 21 Nov 2026 10:00:57.007 # WARNING Memory overcommit must be enabled!\n\n",
		"9815:M 21 Nov 2026 10:00:57.007 # client->argv[3] = \"a payload\"\n",
		"9815:signal-handler (1795255258) Received SIGTERM scheduling shutdown...\n",
		"9815:M 21 Nov 2026 10:00:58.013 # "+strings.Repeat("x", 10_000)+"\n",
		"plain, and not ended")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 3, log.String())
	require.Contains(t, lines[0], `level=INFO msg="embedded redis says" text="WARNING Memory overcommit must be enabled!"`)
	require.Contains(t, lines[1], `text="Received SIGTERM scheduling shutdown..."`)
	require.Less(t, len(lines[2]), 5000)
	require.Regexp(t, "^Received SIGTERM .*; x+$", last)
	require.False(t, damaged)
}
