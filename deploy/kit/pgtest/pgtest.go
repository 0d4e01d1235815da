// Package pgtest gives tests a real PostgreSQL: a database of their own on a server
// that the tests of one process share, or a server of their own. That can be killed,
// stopped, started again, and filled up. It is never one that the machine runs for
// itself. All of it ends with the test process, however that ends, and leaves nothing.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// shared is the server of all tests of this process that ask for no own one. It ends
// with the process.
var shared struct {
	once    sync.Once
	server  *Server
	err     error
	created atomic.Int64 // databases
}

// New makes an empty database on a server that the tests of this process share, and
// answers its URL. It goes with the test.
func New(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = start(Options{}) })
	require.NoError(t, shared.err, "start PostgreSQL")
	name := fmt.Sprintf("test_%d", shared.created.Add(1))
	admin := *shared.server
	admin.t = t
	admin.Exec("create database " + name)
	t.Cleanup(func() { admin.Exec("drop database if exists " + name + " with (force)") })
	return admin.urlOf(name)
}

// Options say how a server of one test is.
type Options struct {
	Fsync    bool     // it waits for the disk: what it has confirmed outlives the machine
	Disk     int64    // bytes of its disk, which Fill fills; 0: the machine's own
	Settings []string // lines of postgresql.conf; they win over the usual ones
}

// Start runs a server that ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := start(o)
	require.NoError(t, err, "start PostgreSQL")
	s.t = t
	t.Cleanup(s.close)
	return s
}

// URL is the address of the server's first database, as ARCHIVE_URL has it. It stays
// the same over a Restart.
func (s *Server) URL() string { return s.urlOf("postgres") }

func (s *Server) urlOf(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Host: kit.Loopback(s.port), Path: "/" + database}
	u.RawQuery = "sslmode=disable"
	return u.String()
}

// Kill ends the server as a crash does: what it had not confirmed is lost, and it has
// to recover. Its shared memory goes too, which a SIGKILL would leave in the system.
func (s *Server) Kill() {
	s.t.Helper()
	s.crash()
}

// Stop ends the server in order. Its connections are cut.
func (s *Server) Stop() {
	s.t.Helper()
	require.NoError(s.t, s.process.Interrupt(), "stop PostgreSQL")
}

// Restart ends the server if it runs, and starts it on the same port and data.
func (s *Server) Restart() {
	s.t.Helper()
	s.crash()
	require.NoError(s.t, s.run(), "restart PostgreSQL")
}

// Log is the end of what the server wrote since its start: what failed is in it.
func (s *Server) Log() string { return s.process.Output.String() }

// Exec runs statements as the superuser, each in a transaction of its own.
func (s *Server) Exec(statements ...string) {
	s.t.Helper()
	// Not the test's context: this is also called when that has ended.
	c, err := pgx.Connect(context.Background(), s.URL())
	require.NoError(s.t, err)
	defer c.Close(context.Background()) //nolint:errcheck // all was answered
	for _, statement := range statements {
		_, err := c.Exec(context.Background(), statement)
		require.NoError(s.t, err, statement)
	}
}

// Fill takes all that is left of a server's Disk.
func (s *Server) Fill() {
	s.t.Helper()
	require.NotZero(s.t, s.o.Disk, "fill the disk: the server was started without one of its own")
	if !s.mounted {
		require.NoError(s.t, s.limitFiles(smallFile))
		return
	}
	f, err := os.Create(s.filler())
	require.NoError(s.t, err)
	defer f.Close() //nolint:errcheck // what it holds does not matter
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
}

// Free gives back what Fill took.
func (s *Server) Free() {
	s.t.Helper()
	if !s.mounted {
		require.NoError(s.t, s.limitFiles("unlimited"))
		return
	}
	require.NoError(s.t, os.Remove(s.filler()))
}
