// Package embedded runs a redis-server, or a valkey-server, as a private child
// of this process. It listens on a Unix socket that only this user may open, and
// has an append-only file in a folder of its own: one process and one folder are
// a durable Hookladder.
//
// embedded.go takes the folder, child.go starts the server and restarts it when it
// dies, await.go waits until it answers, and output.go reads what it prints.
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
	"time"
)

// Options say where the data lie.
type Options struct {
	Dir   string // made, if it is not there
	Fsync bool   // each change is on the disk before it is answered; else each second
	Log   *slog.Logger

	settings []string // more arguments of the server, for tests
}

// ErrInUse says that another process runs on the folder.
var ErrInUse = errors.New("in use by another process")

// Redis is a server that runs, and is started again when it dies, until Close.
type Redis struct {
	o       Options
	program string
	dir     string   // of the server alone, below Options.Dir
	socket  string   // where it listens
	own     *os.File // locked while this process uses the folder
	servers *os.File // locked while a server uses the folder: the server inherits it

	ready chan struct{} // closed when it answered for the first time
	stop  chan struct{} // closed when it is to end
	ended chan struct{} // closed when it has ended for good
}

// Names in the folder. The server makes appendonlydir beside them.
const (
	storeDir   = "store"       // all of it: the folder itself may be a volume with other things in it
	ownLock    = "lock"        // holds the pid of the process that uses the folder
	serverLock = "server.lock" // holds the socket of its server
	socketName = "redis.sock"
)

// socketMost is how long the path of a socket may be on every system.
const socketMost = 103

// programs are what can be run, the first that is installed.
var programs = []string{"redis-server", "valkey-server"}

// Start starts the server on what the folder holds, and returns when it
// answers. It takes long to load much data, so Start waits until ctx ends or the
// load makes no more progress.
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
	started := make(chan firstStart)
	go r.run(started)
	first := <-started
	if err = first.err; err == nil {
		err = r.await(ctx, first.child)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	close(r.ready)
	return r, nil
}

// URL is how to connect.
func (r *Redis) URL() string { return socketURL(r.socket) }

func socketURL(socket string) string {
	u := url.URL{Scheme: "unix", Path: socket}
	return u.String()
}

// Running is how to connect to the server that another process runs on a
// folder now; empty: no server answers there.
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
	if _, err := ask(ctx, socket, "PING"); err != nil && !errors.Is(err, errLoading) {
		return ""
	}
	return socketURL(socket)
}

// Close has the server write what it holds and end. It is called once.
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

// makeDir makes the server's folder, which no other user may read.
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

// makeOwn makes a folder that is ours alone. Through a link we would change the
// rights of another folder, and write into it.
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

// How long to wait for a folder that is in use. The lock of a process that ended
// may be held for a moment longer, by children that it had just started. The server
// of a process that was killed writes its data first, which takes some seconds on
// a slow disk.
const (
	userWait   = time.Second
	orphanWait = 30 * time.Second
)

// take makes this process the folder's only user. The server of a process that
// was killed may still be about to end, or run on.
func (r *Redis) take(ctx context.Context) (err error) {
	if r.own, err = open(filepath.Join(r.dir, ownLock)); err != nil {
		return err
	}
	free, err := lockWithin(ctx, r.own, userWait, func() {})
	if err != nil {
		return err
	}
	if !free {
		return fmt.Errorf("%s is %w (%s): each needs a folder of its own", r.o.Dir, ErrInUse, read(r.own))
	}
	if err := write(r.own, "pid "+strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	if r.servers, err = open(filepath.Join(r.dir, serverLock)); err != nil {
		return err
	}
	told := false
	free, err = lockWithin(ctx, r.servers, orphanWait, func() {
		if !told {
			r.o.Log.Info("ending the embedded redis of a process that was killed", "socket", read(r.servers))
			told = true
		}
		// Whether it ends shows in its lock: it may be ending already.
		_, _ = ask(ctx, read(r.servers), "SHUTDOWN NOSAVE")
	})
	if err == nil && !free {
		err = fmt.Errorf("a server that an earlier process started still uses %s, and does not end: end it (it listens on %s), then start again", r.dir, read(r.servers))
	}
	return err
}

// lockWithin locks a file, if it comes free in time. It calls busy each time that
// it is not free.
func lockWithin(ctx context.Context, f *os.File, most time.Duration, busy func()) (free bool, err error) {
	for began := time.Now(); ; {
		if free, err = lock(f); free || err != nil || time.Since(began) > most {
			return free, err
		}
		busy()
		if err := pause(ctx, pollEvery); err != nil {
			return false, fmt.Errorf("wait for %s to come free: %w", f.Name(), err)
		}
	}
}

// chooseSocket puts the socket into the folder, or where its path would be too
// long into one that is made for it.
func (r *Redis) chooseSocket() error {
	r.socket = filepath.Join(r.dir, socketName)
	if len(r.socket) > socketMost {
		dir, err := os.MkdirTemp("", "hookladder-")
		if err != nil {
			return fmt.Errorf("make folder for the socket: %w", err)
		}
		r.socket = filepath.Join(dir, socketName)
	}
	before := read(r.servers)
	if before != "" && before != r.socket && filepath.Base(before) == socketName {
		_ = os.Remove(before) // what a process that was killed left; it may be gone already
		_ = os.Remove(filepath.Dir(before))
	}
	return write(r.servers, r.socket)
}

// release gives the folder back.
func (r *Redis) release() error {
	if r.socket != "" && filepath.Dir(r.socket) != r.dir {
		_ = os.RemoveAll(filepath.Dir(r.socket)) // nothing but a socket is in it
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
		return nil, fmt.Errorf("open lock, which must be a file and no link: %w", err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || !ours(info)) {
		err = fmt.Errorf("%s is no file of this process' user: remove it", path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open lock: %w", err), f.Close())
	}
	return f, nil
}

// noteMost is longer than any note in a lock file.
const noteMost = 4 << 10

// read is the note of the process that locked a file; empty: there is none.
func read(f *os.File) string {
	b := make([]byte, noteMost)
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

// pause waits, or answers why ctx ended.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
