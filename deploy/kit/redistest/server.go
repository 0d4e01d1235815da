package redistest

import (
	"context"
	"crypto/tls"
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

// Start starts a redis-server that appends every change to a file (fsync every
// second), never evicts and writes no snapshots. Each of settings is a line of
// redis.conf and overrides a default: "maxmemory 20mb". The server ends with the
// test.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return mustStart(t, kit.RedisOptions{Settings: settings})
}

// StartTLS is Start for a server that also accepts TLS.
func StartTLS(t testing.TB, files *kit.RedisTLS, settings ...string) *Server {
	t.Helper()
	return mustStart(t, kit.RedisOptions{Settings: settings, TLS: files})
}

func mustStart(t testing.TB, o kit.RedisOptions) *Server {
	t.Helper()
	s, err := start(t, o)
	require.NoError(t, err)
	return s
}

// start returns an error and does not fail the test, so that several servers can
// start at once.
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

// StartReplica starts a replica of a server, and returns when it is in step. A test
// can kill, pause and restart it like any other server.
func StartReplica(t testing.TB, of *Server, settings ...string) *Server {
	t.Helper()
	Long(t)
	s := StartTLS(t, of.TLS, append([]string{fmt.Sprintf("replicaof 127.0.0.1 %d", of.LinkPort())}, settings...)...)
	s.InStep()
	return s
}

// Port returns its loopback port.
func (s *Server) Port() int { return s.Redis.Port }

// Pid returns its process id.
func (s *Server) Pid() int { return s.Process.Pid() }

// Kill sends SIGKILL. The server loses changes that are not yet in its file: with
// appendfsync everysec, while an fsync takes long.
func (s *Server) Kill() { s.Process.Kill() }

// Stop lets the server write its data and exit.
func (s *Server) Stop() {
	s.t.Helper()
	_ = s.Process.Signal(syscall.SIGCONT) // a paused server would not get the next signal
	require.NoError(s.t, s.Process.Terminate())
}

// Restart starts the server on the same port and data. If it runs, Restart ends it in
// order first. After SIGKILL a change of the last two seconds may be missing from its file,
// although the server replied.
func (s *Server) Restart() {
	s.t.Helper()
	if !s.Process.Gone() {
		s.Stop()
	}
	require.NoError(s.t, s.Run(context.Background()), "restart redis-server")
}

// Pause freezes the process: it does not reply, but keeps its connections.
func (s *Server) Pause() {
	s.t.Helper()
	require.NoError(s.t, s.Process.Signal(syscall.SIGSTOP), "pause redis-server")
}

// Resume lets a paused process continue.
func (s *Server) Resume() {
	s.t.Helper()
	require.NoError(s.t, s.Process.Signal(syscall.SIGCONT), "resume redis-server")
}

// InStep waits until the replica follows its master, and has all changes that the
// master has written by now.
func (s *Server) InStep() {
	s.t.Helper()
	require.NoError(s.t, s.inStep())
}

func (s *Server) inStep() error {
	written := int64(-1) // by the master, in bytes of its stream; -1: not read yet
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

// writtenByMaster returns how much the master of a replica has written, in bytes of
// its stream.
func (s *Server) writtenByMaster() (int64, error) {
	port, err := s.offset("master_port")
	if err != nil {
		return -1, err
	}
	o := &redis.Options{Addr: kit.Loopback(int(port))}
	if s.TLS != nil {
		o.TLSConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // only an offset is read
	}
	client := redis.NewClient(o)
	defer client.Close() //nolint:errcheck // it only ran a query
	master := &Server{t: s.t, Redis: &kit.Redis{Port: int(port), Client: client}}
	written, err := master.offset("master_repl_offset")
	if err != nil {
		return -1, err
	}
	return written, nil
}

// offset returns a number of the server's INFO replication, or 0 if the field is
// missing.
func (s *Server) offset(field string) (int64, error) {
	text, err := s.info("replication", field)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
