package redistest

import (
	"fmt"
	"testing"

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

// InStep waits until the replica has its master's data and follows it.
func (s *Server) InStep() {
	s.t.Helper()
	require.NoError(s.t, s.inStep())
}

func (s *Server) inStep() error {
	return until(fmt.Sprintf("replica %s in step", s.Addr()), func() (bool, error) {
		status, err := s.info("replication", "master_link_status")
		return status == "up", err
	})
}
