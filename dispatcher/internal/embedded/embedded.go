// Package embedded runs the program's own store. Redis is a redis-server, or a
// valkey-server, as a private child of this process. It listens on a Unix socket that only
// this user may open, and writes an append-only file into its own folder. So one process and
// one folder are a durable Hookladder.
//
// Start locks the folder (embedded.go), starts the server and restarts it when it dies
// (child.go), and waits until it responds. The server's output goes to the log. Close stops the
// server.
//
// InMemory is a Redis inside the process, for trying things out (in_memory.go). It needs
// nothing else, and forgets everything when the process ends.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Options configure the server.
type Options struct {
	Dir   string // created if it does not exist
	Fsync bool   // sync each change to the disk before it is confirmed; otherwise once a second
	Log   *slog.Logger

	settings []string // more arguments of the server, for tests
}

// ErrInUse is returned by Start if another process uses the folder.
var ErrInUse = errors.New("in use by another process")

// Redis is a running server. It is restarted when it dies, until Close.
type Redis struct {
	o       Options
	program string
	dir     string   // the server's folder, below Options.Dir
	socket  string   // where it listens
	own     *os.File // locked while this process uses the folder
	servers *os.File // locked while a server uses the folder, because the server inherits it

	ready    chan struct{} // closed after the first response
	stop     chan struct{} // closed by Close
	ended    chan struct{} // closed when the server has ended for good
	checking atomic.Bool   // while its file is checked, see removeTail
}

// Names in the folder. The server adds appendonlydir.
const (
	storeDir   = "store"       // has all the rest, because the folder may be a volume with other files
	ownLock    = "lock"        // contains the pid of the process that uses the folder
	serverLock = "server.lock" // contains the socket of its server
	socketName = "redis.sock"
)

// maxSocketPath is the longest path of a socket that every system allows.
const maxSocketPath = 103

// programs are the supported servers. The first one that is installed is used.
var programs = []string{"redis-server", "valkey-server"}

// Start starts the server on the folder's data, and returns when it responds. Loading
// much data takes long, so Start waits until ctx ends, or until the load makes no
// progress for a minute.
func Start(ctx context.Context, o Options) (_ *Redis, err error) {
	r := &Redis{o: o, ready: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{})}
	if r.program, err = find(); err != nil {
		return nil, err
	}
	if r.dir, err = makeDir(o.Dir); err != nil {
		return nil, err
	}
	if err := r.take(ctx); err != nil {
		return nil, errors.Join(err, r.release())
	}
	if err := r.chooseSocket(); err != nil {
		return nil, errors.Join(err, r.release())
	}
	failed := make(chan error, 1)
	go r.run(failed)
	if err := r.await(ctx, failed); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	close(r.ready)
	return r, nil
}

// URL returns the address of the server for a client of Redis.
func (r *Redis) URL() string { return socketURL(r.socket) }

func socketURL(socket string) string {
	u := url.URL{Scheme: "unix", Path: socket}
	return u.String()
}

// Running returns the address of the server that another process runs on a folder, or ""
// if no server responds there.
func Running(ctx context.Context, dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	note, err := os.ReadFile(filepath.Join(dir, storeDir, serverLock))
	if err != nil {
		return ""
	}
	socket := string(note)
	if _, err := query(ctx, socket, "PING"); err != nil && !errors.Is(err, errLoading) {
		return ""
	}
	return socketURL(socket)
}

// Close makes the server write its data and end. It must be called once.
func (r *Redis) Close() error {
	close(r.stop)
	<-r.ended
	return r.release()
}

func find() (string, error) {
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("neither %s is installed: install one (apt-get install redis-server, or brew install redis), or name a Redis with REDIS_URL",
		strings.Join(programs, " nor "))
}

// makeDir creates the server's folder, which no other user may read.
func makeDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find data folder: %w", err)
	}
	store := filepath.Join(dir, storeDir)
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = makeOwn(store)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w: the folder has to belong to user %d, as which this process runs", err, os.Getuid())
	}
	if err != nil {
		return "", fmt.Errorf("make data folder: %w", err)
	}
	return store, nil
}

// makeOwn creates a folder that only this user may use. It refuses a link, because we
// would change the rights of another folder and write into it.
func makeOwn(store string) error {
	if err := os.Mkdir(store, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(store)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is a link or a file, and not a folder: remove it", store)
	case !ours(info):
		return fmt.Errorf("%s belongs to another user: chown it to user %d, as which this process runs, or remove it", store, os.Getuid())
	}
	return os.Chmod(store, 0o700)
}

// Timeouts for a folder that is in use. The lock of an ended process may stay locked for
// a moment by children that it had just started. The server of a killed process writes
// its data first, which takes some seconds on a slow disk.
const (
	userWait   = time.Second
	orphanWait = 30 * time.Second
)

// take makes this process the folder's only user. The server of a killed process may
// still be ending, or running.
func (r *Redis) take(ctx context.Context) (err error) {
	if r.own, err = open(filepath.Join(r.dir, ownLock)); err != nil {
		return err
	}
	free, err := lockWithin(ctx, r.own, userWait, func() {})
	if err != nil {
		return err
	}
	if !free {
		return fmt.Errorf("%s is %w (%s): each process needs its own folder", r.o.Dir, ErrInUse, read(r.own))
	}
	if err := write(r.own, "pid "+strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	if r.servers, err = open(filepath.Join(r.dir, serverLock)); err != nil {
		return err
	}
	logged := false
	free, err = lockWithin(ctx, r.servers, orphanWait, func() {
		if !logged {
			r.o.Log.Info("ending the embedded redis of a process that was killed", "socket", read(r.servers))
			logged = true
		}
		// Its lock shows whether it ends, so the result does not matter.
		_, _ = query(ctx, read(r.servers), "SHUTDOWN NOSAVE")
	})
	if err == nil && !free {
		err = fmt.Errorf("a server that an earlier process started still uses %s and does not end: stop it (it listens on %s), then start again", r.dir, read(r.servers))
	}
	return err
}

// lockWithin locks a file as soon as it is free, until a timeout. It calls busy each time
// that the file is locked.
func lockWithin(ctx context.Context, f *os.File, most time.Duration, busy func()) (free bool, err error) {
	for began := time.Now(); ; {
		if free, err = lock(f); free || err != nil || time.Since(began) > most {
			return free, err
		}
		busy()
		if !wait.Sleep(ctx, pollEvery) {
			return false, fmt.Errorf("wait for the lock %s: %w", f.Name(), context.Cause(ctx))
		}
	}
}

// chooseSocket puts the socket into the folder, or into a new folder if its path would be
// too long.
func (r *Redis) chooseSocket() error {
	r.socket = filepath.Join(r.dir, socketName)
	if len(r.socket) > maxSocketPath {
		dir, err := os.MkdirTemp("", "hookladder-")
		if err != nil {
			return fmt.Errorf("make folder for the socket: %w", err)
		}
		r.socket = filepath.Join(dir, socketName)
	}
	before := read(r.servers)
	if before != "" && before != r.socket && filepath.Base(before) == socketName {
		_ = os.Remove(before) // left by a killed process; it may be gone already
		_ = os.Remove(filepath.Dir(before))
	}
	return write(r.servers, r.socket)
}

// release unlocks the folder.
func (r *Redis) release() error {
	if r.socket != "" && filepath.Dir(r.socket) != r.dir {
		_ = os.RemoveAll(filepath.Dir(r.socket)) // it contains only the socket
	}
	var errs []error
	for _, f := range []*os.File{r.servers, r.own} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock, which must be a file, not a link: %w", err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || !ours(info)) {
		err = fmt.Errorf("%s is not a file of this process' user: remove it", path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open lock: %w", err), f.Close())
	}
	return f, nil
}

// maxNote is longer than any note in a lock file.
const maxNote = 4 << 10

// read returns the note of the process that locked a file, or "".
func read(f *os.File) string {
	b := make([]byte, maxNote)
	n, _ := f.ReadAt(b, 0) // the note is shorter than b
	return string(b[:n])
}

func write(f *os.File, note string) error {
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(note), 0)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return nil
}
