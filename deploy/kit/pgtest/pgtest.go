// Package pgtest gives tests a real PostgreSQL. A test gets a database of its own on
// a server that all tests of one process share, or a server of its own. A test can
// kill, stop and restart its own server, and fill its disk. The package never uses a
// server that the machine runs for itself. Each server ends with the test process,
// even after a crash, and leaves no files.
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

// shared is the server of all tests of this process that need no server of their own.
// It ends with the process.
var shared struct {
	once    sync.Once
	server  *Server
	err     error
	created atomic.Int64 // number of databases
}

// New creates an empty database on the shared server of this process and returns its
// URL. The database is dropped when the test ends.
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

// Options describe the server of one test.
type Options struct {
	Fsync    bool     // wait for the disk, so that a confirmed change survives a crash of the machine
	Disk     int64    // size of its disk in bytes, which Fill fills; 0: the machine's own disk
	Settings []string // lines of postgresql.conf; they override the defaults
}

// Start starts a server that ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := start(o)
	require.NoError(t, err, "start PostgreSQL")
	s.t = t
	t.Cleanup(s.close)
	return s
}

// URL returns the address of the server's first database in the format of
// ARCHIVE_URL. A Restart does not change it.
func (s *Server) URL() string { return s.urlOf("postgres") }

func (s *Server) urlOf(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Host: kit.Loopback(s.port), Path: "/" + database}
	u.RawQuery = "sslmode=disable"
	return u.String()
}

// Kill ends the server like a crash: an unconfirmed change is lost, and the server
// must recover. Its shared memory is removed too, but SIGKILL would leave it in the
// system.
func (s *Server) Kill() {
	s.t.Helper()
	s.crash()
}

// Stop ends the server in order and closes its connections.
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

// Log returns the end of the server's output, which includes its errors.
func (s *Server) Log() string { return s.process.Output.String() }

// Exec runs statements as the superuser, each in a transaction of its own.
func (s *Server) Exec(statements ...string) {
	s.t.Helper()
	// The test's context does not work here, because cleanup also calls Exec.
	c, err := pgx.Connect(context.Background(), s.URL())
	require.NoError(s.t, err)
	defer c.Close(context.Background()) //nolint:errcheck // all queries have returned
	for _, statement := range statements {
		_, err := c.Exec(context.Background(), statement)
		require.NoError(s.t, err, statement)
	}
}

// Fill uses all free space of a server's Disk.
func (s *Server) Fill() {
	s.t.Helper()
	require.NotZero(s.t, s.o.Disk, "fill the disk: the server was started without one of its own")
	if !s.mounted {
		require.NoError(s.t, s.limitFiles(smallFile))
		return
	}
	f, err := os.Create(s.filler())
	require.NoError(s.t, err)
	defer f.Close() //nolint:errcheck // its content does not matter
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
}

// Free releases the space that Fill used.
func (s *Server) Free() {
	s.t.Helper()
	if !s.mounted {
		require.NoError(s.t, s.limitFiles("unlimited"))
		return
	}
	require.NoError(s.t, os.Remove(s.filler()))
}
