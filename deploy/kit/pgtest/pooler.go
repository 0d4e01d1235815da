package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// Pooler is a PgBouncer in front of a database, and ends with the test.
type Pooler struct {
	t       testing.TB
	through string // the URL of the database through it
	command kit.Command
	process *kit.Process
}

// Pool starts a PgBouncer in front of a database and returns the URL of the database through
// it. All its clients share size connections to the server, and each transaction gets any of
// them. With a size of 1 each client surely meets what the others left on the connection.
func Pool(t testing.TB, database string, size int) string {
	t.Helper()
	return StartPooler(t, database, size).URL()
}

// StartPooler is Pool for a test that kills the PgBouncer.
func StartPooler(t testing.TB, database string, size int) *Pooler {
	t.Helper()
	program, err := pgbouncer()
	require.NoError(t, err)
	as, err := whose()
	require.NoError(t, err)
	root, err := folder()
	require.NoError(t, err)
	dir, err := os.MkdirTemp(root, "p")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the broom retries this
	require.NoError(t, as.own(dir))
	to, err := url.Parse(database)
	require.NoError(t, err)
	through, p := *to, &Pooler{t: t}
	for range 5 { // another process may take the free port before PgBouncer does
		var port int
		if port, err = kit.FreePort(); err != nil {
			continue
		}
		through.Host = kit.Loopback(port)
		p.through = through.String()
		p.command = kit.Command{
			Name: "pgbouncer", Path: program, Dir: dir, Env: environment, UID: as.uid, GID: as.gid,
			Args: []string{filepath.Join(dir, "pgbouncer.ini")}, Keep: 64 << 10,
		}
		if err = configurePooler(dir, to, port, size); err == nil {
			err = p.run()
		}
		if err == nil {
			return p
		}
	}
	require.NoError(t, err, "start PgBouncer")
	return nil
}

// URL returns the URL of the database through it. A Restart does not change it.
func (p *Pooler) URL() string { return p.through }

// Kill ends it like a crash, with all connections through it.
func (p *Pooler) Kill() { p.process.Kill() }

// Restart starts it again after a Kill.
func (p *Pooler) Restart() {
	p.t.Helper()
	require.NoError(p.t, p.run(), "restart PgBouncer")
}

// configurePooler writes its files.
func configurePooler(dir string, to *url.URL, port, size int) error {
	config, users := filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "users")
	text := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = %s
`, to.Hostname(), to.Port(), port, users, strconv.Itoa(size))
	return errors.Join(os.WriteFile(config, []byte(text), 0o644), os.WriteFile(users, []byte(`"`+superuser+`" ""`+"\n"), 0o644))
}

// run starts PgBouncer and waits until a query passes through it.
func (p *Pooler) run() (err error) {
	if p.process, err = kit.Start(p.command); err != nil {
		return err
	}
	p.t.Cleanup(p.process.Kill)
	return kit.Until(context.Background(), "PgBouncer answers", func() error {
		if p.process.Gone() {
			return kit.Stop(p.process.Death())
		}
		ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
		defer cancel()
		c, err := pgx.Connect(ctx, p.through)
		if err != nil {
			return err
		}
		return c.Close(ctx)
	})
}

// pgbouncer returns the path of the program, because Debian keeps it where only root's PATH leads.
func pgbouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no pgbouncer: install it (apt-get install pgbouncer, brew install pgbouncer)")
}
