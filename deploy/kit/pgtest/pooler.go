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

// Pool starts a PgBouncer in front of a database and returns the URL of the database through
// it. All its clients share size connections to the server, and each transaction gets any of
// them. With a size of 1 each client surely meets what the others left on the connection.
func Pool(t testing.TB, database string, size int) string {
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
	through := *to
	for range 5 { // another process may take the free port before PgBouncer does
		var port int
		if port, err = kit.FreePort(); err != nil {
			continue
		}
		through.Host = kit.Loopback(port)
		if err = runPooler(t, program, dir, as, to, port, size, through.String()); err == nil {
			return through.String()
		}
	}
	require.NoError(t, err, "start PgBouncer")
	return ""
}

// runPooler starts PgBouncer and waits until a query passes through it. It ends with the test.
func runPooler(t testing.TB, program, dir string, as account, to *url.URL, port, size int, through string) error {
	t.Helper()
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
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o644), os.WriteFile(users, []byte(`"`+superuser+`" ""`+"\n"), 0o644)); err != nil {
		return err
	}
	p, err := kit.Start(kit.Command{
		Name: "pgbouncer", Path: program, Dir: dir, Env: environment, UID: as.uid, GID: as.gid, Args: []string{config}, Keep: 64 << 10,
	})
	if err != nil {
		return err
	}
	t.Cleanup(p.Kill)
	return kit.Until(context.Background(), "PgBouncer answers", func() error {
		if p.Gone() {
			return kit.Stop(p.Death())
		}
		ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
		defer cancel()
		c, err := pgx.Connect(ctx, through)
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
