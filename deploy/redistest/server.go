package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Server is a redis-server process on a free loopback port.
type Server struct {
	t    testing.TB
	path string
	dir  string
	port int

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process is gone and waited for
	guard io.Closer     // closing it, as our own death does, kills the process
}

// Start runs a redis-server that appends every change to a file (fsync every
// second), never evicts and writes no snapshots. Each of settings is a line of
// redis.conf, which wins over those: "maxmemory 20mb". The server ends with the
// test.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is needed by the tests and is not installed: apt-get install redis-server, or brew install redis")
	}
	s := &Server{t: t, path: path, dir: t.TempDir()}
	t.Cleanup(s.Kill)
	// Between asking for a free port and the server's own bind another process
	// may take it, so some tries are made.
	for range 5 {
		s.port = freePort(t)
		require.NoError(t, os.WriteFile(s.file("redis.conf"), s.config(settings), 0o600))
		if err = s.run(); err == nil {
			return s
		}
	}
	t.Fatalf("start redis-server: %v\n%s", err, s.log())
	return nil
}

// config is the text of redis.conf.
func (s *Server) config(settings []string) []byte {
	lines := append([]string{
		"port " + strconv.Itoa(s.port),
		"bind 127.0.0.1",
		"dir " + s.dir,
		"logfile " + s.file("redis.log"),
		"loglevel warning",
		"daemonize no",
		`save ""`,
		"appendonly yes",
		"appendfsync everysec",
		"maxmemory-policy noeviction",
	}, settings...)
	return []byte(strings.Join(lines, "\n") + "\n")
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	cmd := exec.Command(s.path, s.file("redis.conf"))
	var out bytes.Buffer // what is said before the log file is open
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	guard, err := guardProcess(cmd.Process.Pid)
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed is how it normally ends
	}()
	s.cmd, s.ended, s.guard = cmd, ended, guard
	if err := waitReady(s.URL(), ended); err != nil {
		s.Kill()
		return fmt.Errorf("%w %s", err, out.String())
	}
	return nil
}

// URL is the server's address.
func (s *Server) URL() string { return fmt.Sprintf("redis://127.0.0.1:%d/0", s.port) }

// Port is the loopback port it listens on.
func (s *Server) Port() int { return s.port }

// Pid is its process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Kill sends SIGKILL. What was not yet written to the file is lost.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop lets the server write what it has and end.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Restart ends the server if it runs, and starts it on the same port and data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.run(); err != nil {
		s.t.Fatalf("restart redis-server: %v\n%s", err, s.log())
	}
}

// Pause freezes the process: it answers nobody, but keeps its connections.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig), "signal redis-server")
}

// end sends a signal and returns when the process is gone. It may be called
// again, and on a server that never ran.
func (s *Server) end(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	select {
	case <-s.ended:
		return
	default:
	}
	_ = s.cmd.Process.Signal(syscall.SIGCONT) // a paused one would not see SIGTERM
	_ = s.cmd.Process.Signal(sig)             // it may have ended by itself meanwhile
	<-s.ended
	_ = s.guard.Close()
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

// log is what the server wrote, for a test that fails.
func (s *Server) log() string {
	b, err := os.ReadFile(s.file("redis.log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// guardProcess kills pid when the test process dies without its cleanups, as
// it does when its time limit is over: a shell waits for the end of a pipe that
// only we hold open.
func guardProcess(pid int) (io.Closer, error) {
	cmd := exec.Command("/bin/sh", "-c", `read -r _ || kill -9 "$0" 2>/dev/null`, strconv.Itoa(pid))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard redis-server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard redis-server: %w", err)
	}
	return &guard{cmd: cmd, in: in}, nil
}

// guard is the shell that waits. Its line on the pipe says that all is well.
type guard struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// Close lets the shell go without killing anything.
func (g *guard) Close() error {
	_, err := io.WriteString(g.in, "\n")
	return errors.Join(err, g.in.Close(), g.cmd.Wait())
}

// freePort is a loopback port that nobody listens on at the moment.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
