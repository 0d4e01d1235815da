package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// StartReplica runs a server that copies of, and returns when it is in step.
// It may be killed, paused and started again like any other.
func StartReplica(t testing.TB, of *Server, settings ...string) *Server {
	t.Helper()
	s := mustStart(t, newServer(t, append([]string{fmt.Sprintf("replicaof 127.0.0.1 %d", of.port)}, settings...)))
	require.NoError(t, s.inStep())
	return s
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
			port, err := s.number("master_port")
			if err != nil {
				return false, err
			}
			master := &Server{t: s.t, port: int(port)}
			master.client = redis.NewClient(&redis.Options{Addr: master.Addr()})
			offset, err := master.number("master_repl_offset")
			if err = errors.Join(err, master.client.Close()); err != nil {
				return false, err
			}
			written = offset
		}
		read, err := s.number("slave_repl_offset")
		return read >= written, err
	})
}

// number reads a number of what a server tells of its replication, 0 where it
// tells none.
func (s *Server) number(field string) (int64, error) {
	text, err := s.info("replication", field)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
