package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/deploy/kit"
)

// superuser is the name of the database's first user, which needs no password from
// this machine.
const superuser = "postgres"

// Server is a postgres process on a free loopback port.
type Server struct {
	t       testing.TB
	o       Options
	dir     string // all files of the server, and its socket
	bin     string // the folder of its programs
	as      account
	port    int
	mounted bool // dir is a disk of its own
	process *kit.Process
}

// account is the system user of the server; the zero value is the user of this
// process.
type account struct{ uid, gid uint32 }

// start creates the files of a server and starts it.
func start(o Options) (s *Server, err error) {
	s = &Server{o: o}
	if s.bin, err = programs(); err != nil {
		return nil, err
	}
	if s.as, err = whose(); err != nil {
		return nil, err
	}
	root, err := folder()
	if err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp(root, "s"); err != nil {
		return nil, err
	}
	if o.Disk > 0 {
		s.mounted = mount(s.dir, o.Disk) == nil // limitFiles is used if this fails
	}
	if err := errors.Join(s.as.own(s.dir), s.init()); err != nil {
		s.close()
		return nil, err
	}
	for range 5 { // another process may take the free port before the server does
		if s.port, err = kit.FreePort(); err == nil {
			err = s.run()
		}
		if err == nil {
			return s, nil
		}
	}
	s.close()
	return nil, err
}

// own makes the account the owner of a folder.
func (a account) own(dir string) error {
	if a.uid == 0 {
		return nil
	}
	return os.Chown(dir, int(a.uid), int(a.gid))
}

// empty returns a folder with the files of an empty server, for all servers of this process.
// A copy of it takes a tenth of the processor time of initdb. Its log segments are 1 MiB,
// so that a small disk is enough.
var empty = sync.OnceValues(func() (data string, err error) {
	root, err := folder()
	if err != nil {
		return "", err
	}
	bin, err := programs()
	if err != nil {
		return "", err
	}
	as, err := whose()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(root, "e")
	if err != nil {
		return "", err
	}
	if err := as.own(dir); err != nil {
		return "", err
	}
	data = filepath.Join(dir, "data")
	p, err := kit.Start(kit.Command{
		Name: "initdb", Path: filepath.Join(bin, "initdb"), Dir: dir, Env: environment, UID: as.uid, GID: as.gid,
		Args: []string{"-D", data, "-U", superuser, "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions", "--wal-segsize=1"},
	})
	if err == nil && p.ExitCode() != 0 {
		err = p.Death()
	}
	return data, err
})

// init creates the files of a server.
func (s *Server) init() error {
	from, err := empty()
	if err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", from, s.data()).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the files of PostgreSQL: %w: %s", err, out)
	}
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	lines := append(slices.Clone(usual), fmt.Sprintf("fsync = %t", s.o.Fsync), fmt.Sprintf("unix_socket_directories = '%s'", s.dir))
	_, err = io.WriteString(f, strings.Join(append(lines, s.o.Settings...), "\n")+"\n")
	return errors.Join(err, f.Close())
}

// environment is the full environment of the programs.
var environment = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}

// usual are the default settings of every server. The time zone is unusual, so that a
// program cannot take it for its own by mistake. Shared memory is in files, because
// files are removed with the folder.
var usual = []string{
	"listen_addresses = '127.0.0.1'", "max_connections = 100", "shared_buffers = '32MB'", "timezone = 'Asia/Kolkata'",
	"dynamic_shared_memory_type = mmap", "min_wal_size = '2MB'", "max_wal_size = '64MB'", "jit = off", "log_timezone = 'UTC'",
}

func (s *Server) data() string   { return filepath.Join(s.dir, "data") }
func (s *Server) filler() string { return filepath.Join(s.dir, "filler") }

// run starts the process on its port and files, and waits until the server is ready.
// It retries after a crash, because processes of old connections may still run for a
// moment.
func (s *Server) run() error {
	return kit.Until(context.Background(), "PostgreSQL runs", func() (err error) {
		s.process, err = kit.Start(kit.Command{
			Name: "postgres", Path: filepath.Join(s.bin, "postgres"), Dir: s.dir, Env: environment, UID: s.as.uid, GID: s.as.gid,
			Args: []string{"-D", s.data(), "-p", strconv.Itoa(s.port)}, Keep: 64 << 10,
			Orphan: syscall.SIGQUIT, // exits at once, and leaves no shared memory
		})
		if err != nil {
			return kit.Stop(err)
		}
		err = kit.Until(context.Background(), "PostgreSQL answers", s.answers)
		if err != nil && !strings.Contains(err.Error(), "shared memory block") && !strings.Contains(err.Error(), "lock file") {
			err = kit.Stop(err)
		}
		return err
	})
}

// answers returns nil if a query reaches this server.
func (s *Server) answers() error {
	if s.process.Gone() {
		return kit.Stop(s.process.Death())
	}
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer c.Close(ctx) //nolint:errcheck // it only ran a query
	var data string
	if err := c.QueryRow(ctx, "show data_directory").Scan(&data); err != nil {
		return err
	}
	if data != s.data() {
		return kit.Stop(fmt.Errorf("another server has port %d", s.port))
	}
	return nil
}

// crash ends the process without a checkpoint.
func (s *Server) crash() {
	_ = s.process.Signal(syscall.SIGQUIT) // fails if the process has exited
	select {
	case <-s.process.Ended:
	case <-time.After(kit.Patience):
		s.process.Kill()
	}
}

// close ends the server for good and removes its files.
func (s *Server) close() {
	if s.process != nil {
		s.crash()
	}
	if s.mounted {
		_ = unmount(s.dir) // the broom retries this
	}
	_ = os.RemoveAll(s.dir)
}

// programs returns the folder of PostgreSQL's programs, because Debian keeps them out
// of PATH.
func programs() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	newest, found := 0, ""
	paths, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // no bad pattern
	for _, path := range paths {
		dir := filepath.Dir(path)
		if version, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && version > newest {
			newest, found = version, dir
		}
	}
	if found == "" {
		return "", errors.New("there is no postgres: install it (apt-get install postgresql, brew install postgresql)")
	}
	return found, nil
}

// whose returns the account for the server, because PostgreSQL refuses to run as
// root.
func whose() (account, error) {
	if os.Getuid() != 0 {
		return account{}, nil
	}
	u, err := user.Lookup(superuser)
	if err != nil {
		return account{}, fmt.Errorf("run PostgreSQL as root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return account{uint32(uid), uint32(gid)}, errors.Join(err, err2)
}

// folder creates the folder of all servers of this process. A broom, a separate
// process, removes the folder when this process has exited.
var folder = sync.OnceValues(func() (string, error) {
	base := os.TempDir()
	if os.Getuid() == 0 {
		base = "/tmp" // another user can read it; sockets also need a short path
	}
	dir, err := os.MkdirTemp(base, "hookladder-pg-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	cmd := exec.Command("sh", "-c", broom, "broom", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C does not reach it
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	alive = append(alive, pipe)
	return dir, cmd.Start()
})

// alive has the pipe that the broom reads. The pipe must stay open until this process
// exits, but the garbage collector would close an unused pipe.
var alive []io.WriteCloser

// broom waits until its standard input ends, and removes a folder. It retries,
// because the servers are still ending and may write files.
const broom = `cat >/dev/null
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	for disk in "$1"/*; do umount "$disk"; done
	rm -rf "$1" && exit
	sleep 0.5
done 2>/dev/null`
