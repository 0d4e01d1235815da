package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Server is a redis-server process on a free loopback port.
type Server struct {
	t      testing.TB
	dir    string
	port   int
	bus    int             // where the nodes of a cluster talk to each other; 0: it is in none
	args   []string        // behind the file's name
	env    []string        // besides our own
	client *redis.Client   // for what the package itself asks
	conf   func() []string // lines of redis.conf behind the address and the files

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
	return mustStart(t, newServer(t, settings))
}

// newServer is a server that does not run yet.
func newServer(t testing.TB, settings []string) *Server {
	s := &Server{t: t, dir: t.TempDir()}
	s.conf = func() []string {
		return append([]string{
			`save ""`,
			"appendonly yes",
			"appendfsync everysec",
			"maxmemory-policy noeviction",
			"repl-diskless-sync-delay 0", // or each replica waits 5 s for others that may come
		}, settings...)
	}
	return s
}

func mustStart(t testing.TB, s *Server) *Server {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// start runs the server on a free port.
func (s *Server) start() (err error) {
	s.t.Cleanup(s.Kill)
	// Between asking for a free port and the server's own bind another process
	// may take it, so some tries are made.
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if s.bus != 0 {
			if s.bus, err = freePort(); err != nil {
				return err
			}
		}
		if err = os.WriteFile(s.file("redis.conf"), s.config(), 0o600); err != nil {
			return fmt.Errorf("start redis-server: %w", err)
		}
		if err = s.connect(); err != nil {
			return err
		}
		if err = s.run(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w\n%s", err, s.log())
}

// config is the text of redis.conf.
func (s *Server) config() []byte {
	lines := append([]string{
		"port " + strconv.Itoa(s.port),
		"bind 127.0.0.1",
		"dir " + s.dir,
		"logfile " + s.file("redis.log"),
		"loglevel notice",
		"daemonize no",
	}, s.conf()...)
	return []byte(strings.Join(lines, "\n") + "\n")
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("redis-server is needed by the tests and is not installed: apt-get install redis-server, or brew install redis")
	}
	cmd := exec.Command(path, append([]string{s.file("redis.conf")}, s.args...)...)
	cmd.Env = append(cmd.Environ(), s.env...)
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
	err = waitReady(s.URL(), ended)
	if err == nil {
		err = s.isOurs()
	}
	if err != nil {
		s.Kill()
		return fmt.Errorf("%w %s", err, out.String())
	}
	return nil
}

// isOurs checks that who answers is this process, and not another server that
// took the port at the same time.
func (s *Server) isOurs() error {
	pid, err := s.info("server", "process_id")
	if err == nil && pid != strconv.Itoa(s.Pid()) {
		err = fmt.Errorf("start redis-server: somebody else answers at %s", s.Addr())
	}
	return err
}

// URL is the server's address.
func (s *Server) URL() string { return fmt.Sprintf("redis://127.0.0.1:%d/0", s.port) }

// Addr is where it listens, as host:port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

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

// FreePort is a port of 127.0.0.1 at which nobody listens, and which the system
// gives to no connection: who stops listening there can begin again.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := freePort()
	require.NoError(t, err)
	return port
}

// given are the ports that this process has used, so that a server that is
// down finds its own again.
var given sync.Map

// freePort is a loopback port that nobody listens on at the moment. It is below
// those that systems give to connections, for the same reason.
func freePort() (port int, err error) {
	for range 50 {
		port = 10_000 + rand.IntN(20_000)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
