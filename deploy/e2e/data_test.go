package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// newFolder is a world without a Redis: instances run their own, in a folder.
func newFolder(t *testing.T, settings ...string) (w *world, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	return newWorldOn(t, "", append([]string{"DATA_DIR=" + dir, searched()}, settings...)...), dir
}

// searched is where programs are looked for.
func searched() string { return "PATH=" + os.Getenv("PATH") }

// server is the pid of the instance's Redis: the newest that it started.
func (i *instance) server() (pid int) {
	i.t.Helper()
	for line := range strings.Lines(i.log()) {
		var started struct {
			Msg string
			Pid int
		}
		if json.Unmarshal([]byte(line), &started) == nil && started.Msg == "embedded redis started" {
			pid = started.Pid
		}
	}
	require.NotZero(i.t, pid)
	return pid
}

func TestARedisOfItsOwnMayDie(t *testing.T) {
	t.Parallel()
	w, _ := newFolder(t, "DURABILITY=fsync", "LOG_LEVEL=info")
	i := w.serve()
	i.troubled = true
	require.Contains(t, i.log(), `"durability":"fsync","loses":"nothing"`)
	c := startCallers(4, 0, i)
	for range 3 {
		c.goOn(60)
		require.NoError(t, syscall.Kill(i.server(), syscall.SIGKILL))
	}
	c.goOn(60)
	all := c.end()
	for _, one := range all {
		i.until(one.id, "delivered")
	}
	require.Equal(t, 3, strings.Count(i.log(), `"embedded redis died, starting it again"`))
	require.Zero(t, i.stop())
}

// The whole is killed while it takes and delivers: what it took is in the
// folder, and the next instance delivers it.
func TestOneProcessAndOneFolderKeepWhatWasTaken(t *testing.T) {
	t.Parallel()
	w, dir := newFolder(t, "LOG_LEVEL=info")
	var ids []string
	for life := range 3 {
		i := w.serve()
		refused := mustRun(t, []string{"DATA_DIR=" + dir, "LISTEN=127.0.0.1:0", searched()}, "", "serve")
		require.Equal(t, exitFailed, refused.code)
		require.Regexp(t, `DATA_DIR: .* is in use by another process \(pid \d+\)`, refused.err)
		refused = mustRun(t, []string{"DATA_DIR=" + dir, "SIGNING_SECRET=" + w.secret.Reveal(), searched()}, "", "tick")
		require.Equal(t, exitFailed, refused.code)
		require.Contains(t, refused.err, "hookladder tick --server URL")
		dead := make(chan struct{})
		go func() {
			defer close(dead)
			w.receiver.until("some of this life", func() bool { return len(w.receiver.arrivals(fmt.Sprint("m", life, "-100"))) > 0 })
			i.Kill()
		}()
		for n := 0; ; n++ {
			id := fmt.Sprint("m", life, "-", n)
			m := &wire.Message{ID: id, Topic: "t", URL: w.receiver.URL(0), Body: []byte("1")}
			if _, err := i.Publish(t.Context(), m); err != nil {
				break
			}
			ids = append(ids, id)
		}
		<-dead
	}
	last := w.serve()
	for _, id := range ids {
		last.until(id, "delivered")
	}
	require.Zero(t, last.stop())
}

func TestARedisOfItsOwnEndsLast(t *testing.T) {
	t.Parallel()
	w, _ := newFolder(t)
	h := w.holdFirst()
	first := w.serve()
	first.flying(3)
	first.publish(wire.Message{ID: "later", URL: w.receiver.URL(0), Delay: hour})
	server := first.server()
	first.signal(syscall.SIGTERM)
	ours, err := syscall.Getpgid(first.Pid())
	require.NoError(t, err)
	theirs, err := syscall.Getpgid(server)
	require.NoError(t, err, "it is still there")
	require.NotEqual(t, ours, theirs, "Ctrl-C in a terminal reaches a whole group")
	close(h.release)
	require.Zero(t, first.ExitCode())
	require.NotContains(t, first.log(), "store lost")
	eventually(t, "its Redis ends", func() bool { return syscall.Kill(server, 0) != nil })

	second := w.serve()
	for n := range 3 {
		require.Equal(t, 1, second.until(fmt.Sprint("flying", n), "delivered").Attempts, "the last outcomes were recorded")
	}
	require.Equal(t, "scheduled", second.delivery("later").Status)
	require.NotContains(t, second.log(), "takeover")
	require.NotContains(t, second.log(), "of a process that was killed")
	require.Zero(t, second.stop())
	w.receiver.once()
}
