package embedded_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
)

// patience bounds how long a test waits for what always comes. It only ends one
// that hangs.
const patience = 3 * time.Minute

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a folder and those who use it.
type rig struct {
	t   *testing.T
	dir string
	log *lockedBuffer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return &rig{t: t, dir: filepath.Join(t.TempDir(), "data"), log: &lockedBuffer{}}
}

func (r *rig) options(settings ...string) embedded.Options {
	o := embedded.Options{Dir: r.dir, Log: slog.New(slog.NewJSONHandler(r.log, nil))}
	return o.WithSettings(settings...)
}

// start starts a server, which ends with the test if not before.
func (r *rig) start(settings ...string) *running {
	r.t.Helper()
	server, err := embedded.Start(r.t.Context(), r.options(settings...))
	require.NoError(r.t, err, r.log.String())
	return r.running(server)
}

func (r *rig) running(server *embedded.Redis) *running {
	r.t.Helper()
	opts, err := redis.ParseURL(server.URL())
	require.NoError(r.t, err)
	run := &running{Client: redis.NewClient(opts), t: r.t, server: server}
	r.t.Cleanup(run.end)
	return run
}

// refuses starts a server that must not start, and answers why it does not.
func (r *rig) refuses(settings ...string) string {
	r.t.Helper()
	server, err := embedded.Start(r.t.Context(), r.options(settings...))
	if err == nil {
		require.NoError(r.t, server.Close())
	}
	require.Error(r.t, err)
	return err.Error()
}

// file is one of the server's.
func (r *rig) file(names ...string) string {
	return filepath.Join(append([]string{r.dir, "store"}, names...)...)
}

// appended is the file that changes are appended to.
func (r *rig) appended() string {
	r.t.Helper()
	found, err := filepath.Glob(r.file("appendonlydir", "*.incr.aof"))
	require.NoError(r.t, err)
	require.Len(r.t, found, 1)
	return found[0]
}

// says counts the log's lines that hold a text.
func (r *rig) says(text string) (n int) {
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// running is a server and a connection to it.
type running struct {
	*redis.Client
	t      *testing.T
	server *embedded.Redis
	once   sync.Once
}

func (r *running) end() {
	r.once.Do(func() {
		_ = r.Client.Close()
		require.NoError(r.t, r.server.Close())
	})
}

// pid is the server's process, by its own word.
func (r *running) pid() int {
	r.t.Helper()
	return mustPid(r.t, r.Client)
}

func mustPid(t testing.TB, c *redis.Client) int {
	t.Helper()
	pid, err := pidOf(t.Context(), c)
	require.NoError(t, err)
	return pid
}

func pidOf(ctx context.Context, c *redis.Client) (int, error) {
	text, err := c.Info(ctx, "server").Result()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "\nprocess_id:")
	number, _, _ := strings.Cut(rest, "\r")
	return strconv.Atoi(number)
}

func (r *running) set(key, value string) {
	r.t.Helper()
	require.NoError(r.t, r.Set(r.t.Context(), key, value, 0).Err())
}

func (r *running) get(key string) string {
	r.t.Helper()
	value, err := r.Get(context.WithoutCancel(r.t.Context()), key).Result()
	require.NoError(r.t, err, key)
	return value
}

// gone reports whether a process has ended. Until its parent waits for it, the
// system keeps its name.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(stat), ") Z ")
}

func mustWrite(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
}
