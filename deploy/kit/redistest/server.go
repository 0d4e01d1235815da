package redistest

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// Server is a redis-server process on a free loopback port.
type Server struct {
	*kit.Redis
	t testing.TB
}

// Start runs a redis-server that appends every change to a file (fsync every
// second), never evicts and writes no snapshots. Each of settings is a line of
// redis.conf, and wins over those: "maxmemory 20mb". The server ends with the
// test.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return mustStart(t, kit.RedisOptions{Settings: settings})
}

func mustStart(t testing.TB, o kit.RedisOptions) *Server {
	t.Helper()
	s, err := start(t, o)
	require.NoError(t, err)
	return s
}

// start does not fail the test, so that several can be started at once.
func start(t testing.TB, o kit.RedisOptions) (*Server, error) {
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	r, err := kit.StartRedis(context.Background(), o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(r.Close)
	return &Server{Redis: r, t: t}, nil
}

// StartReplica runs a server that copies of, and returns when it is in step.
// It may be killed, paused and started again like any other.
func StartReplica(t testing.TB, of *Server, settings ...string) *Server {
	t.Helper()
	Long(t)
	s := Start(t, append([]string{fmt.Sprintf("replicaof 127.0.0.1 %d", of.Port())}, settings...)...)
	s.InStep()
	return s
}

// Port is the loopback port it listens on.
func (s *Server) Port() int { return s.Redis.Port }

// Pid is its process id.
func (s *Server) Pid() int { return s.Process.Pid() }

// Kill sends SIGKILL. What was not yet written to the file is lost.
func (s *Server) Kill() { s.Process.Kill() }

// Stop lets the server write what it has and end.
func (s *Server) Stop() {
	s.t.Helper()
	_ = s.Process.Signal(syscall.SIGCONT) // a paused one would not see what follows
	require.NoError(s.t, s.Process.Terminate())
}

// Restart ends the server if it runs, and starts it on the same port and data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	require.NoError(s.t, s.Run(context.Background()), "restart redis-server")
}

// Pause freezes the process: it answers nothing, but keeps its connections.
func (s *Server) Pause() {
	s.t.Helper()
	require.NoError(s.t, s.Process.Signal(syscall.SIGSTOP), "pause redis-server")
}

// Resume lets a paused process go on.
func (s *Server) Resume() {
	s.t.Helper()
	require.NoError(s.t, s.Process.Signal(syscall.SIGCONT), "resume redis-server")
}

// InStep waits until the replica has all that its master has written by now, and
// follows it.
func (s *Server) InStep() {
	s.t.Helper()
	require.NoError(s.t, s.inStep())
}

func (s *Server) inStep() error {
	written := int64(-1) // by the master, in bytes of its stream; -1: not asked yet
	return until(fmt.Sprintf("replica %s in step", s.Addr()), func() (bool, error) {
		link, err := s.info("replication", "master_link_status")
		if err != nil || link != "up" {
			return false, err
		}
		if written < 0 {
			if written, err = s.writtenByMaster(); err != nil {
				return false, err
			}
		}
		read, err := s.offset("slave_repl_offset")
		return read >= written, err
	})
}

// writtenByMaster is how much the master of a replica has written, in bytes of
// its stream.
func (s *Server) writtenByMaster() (int64, error) {
	port, err := s.offset("master_port")
	if err != nil {
		return -1, err
	}
	client := redis.NewClient(&redis.Options{Addr: kit.Loopback(int(port))})
	defer client.Close() //nolint:errcheck // it only read
	master := &Server{t: s.t, Redis: &kit.Redis{Port: int(port), Client: client}}
	written, err := master.offset("master_repl_offset")
	if err != nil {
		return -1, err
	}
	return written, nil
}

// offset reads a number of what a server tells of its replication; 0 where it
// does not tell it.
func (s *Server) offset(field string) (int64, error) {
	text, err := s.info("replication", field)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
