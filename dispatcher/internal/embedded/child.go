package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Waits before a server that died is started again: they double from
// restartFirst to restartMost, and start over once it ran for restartCalm.
const (
	restartFirst = 100 * time.Millisecond
	restartMost  = 5 * time.Second
	restartCalm  = time.Minute
)

// stopMost is how long the server may take to write its data. What it has not
// synced by then is in the system's buffers, and reaches the disk unless the
// machine dies.
const stopMost = 10 * time.Second

// outputMost is how long we wait for the output of a server that ended: a child
// of its own, which rewrites the file, may hold the pipe open.
const outputMost = time.Second

// child is one process of the server.
type child struct {
	cmd    *exec.Cmd
	output *output
	exited chan struct{} // closed when it has ended and was waited for
}

// firstStart is how the first start went.
type firstStart struct {
	child *child
	err   error
}

// run starts the server, and again when it dies, until stop.
func (r *Redis) run(started chan<- firstStart) {
	// The kernel ends the child together with the thread that made it, so this
	// one must last: it belongs to this goroutine until both end.
	runtime.LockOSThread()
	defer close(r.ended)
	c, err := r.spawn(false)
	started <- firstStart{c, err}
	if err != nil {
		return
	}
	for wait := restartFirst; ; wait = min(2*wait, restartMost) {
		began := time.Now()
		if err == nil {
			if r.watch(c) {
				return
			}
			err = c.death()
		}
		if time.Since(began) > restartCalm {
			wait = restartFirst
		}
		r.o.Log.Error("embedded redis died, starting it again", "err", err, "wait_s", wait.Seconds())
		select {
		case <-r.stop:
			return
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		}
		c, err = r.spawn(true)
	}
}

// watch returns when the server ended, and reports whether that was for good.
func (r *Redis) watch(c *child) (last bool) {
	select {
	case <-r.stop:
		c.end(r)
		return true
	case <-c.exited:
	}
	select {
	case <-r.ready:
		return false
	case <-r.stop: // Start, which waits for the first answer, knows why there is none
		return true
	}
}

// spawn starts a process. It inherits the lock of the servers, which is held for
// as long as it lives. It inherits no environment, since that holds secrets.
func (r *Redis) spawn(again bool) (*child, error) {
	c := &child{output: &output{log: r.o.Log, again: again}, exited: make(chan struct{})}
	c.cmd = exec.Command(r.program, r.arguments()...)
	c.cmd.Dir = r.dir
	c.cmd.Env = []string{}
	c.cmd.ExtraFiles = []*os.File{r.servers}
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.WaitDelay = outputMost
	c.cmd.SysProcAttr = processAttributes()
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(r.program), err)
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // its state says how it ended
	}()
	r.o.Log.Info("embedded redis started", "program", r.program, "pid", c.cmd.Process.Pid, "dir", r.dir)
	return c, nil
}

// arguments are what differs from the server's own defaults.
func (r *Redis) arguments() []string {
	fsync := "everysec"
	if r.o.Fsync {
		fsync = "always"
	}
	return append([]string{
		"--port", "0",
		"--unixsocket", r.socket,
		"--unixsocketperm", "700",
		"--daemonize", "no",
		"--databases", "1",
		"--loglevel", "warning",
		"--crash-log-enabled", "no", // it would print what clients sent
		"--dir", r.dir,
		"--save", "", // the append-only file holds all data
		"--appendonly", "yes",
		"--appendfsync", fsync,
		"--no-appendfsync-on-rewrite", "no",
		"--aof-load-truncated", "yes", // a power loss may cut the last change, which was not acknowledged
		"--maxmemory", strconv.FormatInt(memory(), 10),
		"--maxmemory-policy", "noeviction",
		"--lazyfree-lazy-user-del", "yes",
		"--lazyfree-lazy-server-del", "yes",
	}, r.o.settings...)
}

// end has the server write its data, and waits until it is gone.
func (c *child) end(r *Redis) {
	c.output.farewell()
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended
	late := time.NewTimer(stopMost)
	defer late.Stop()
	select {
	case <-c.exited:
		return
	case <-late.C:
	}
	r.o.Log.Warn("embedded redis did not end, killing it", "waited_s", stopMost.Seconds())
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// death is how the process ended, with the last lines that it printed.
func (c *child) death() error {
	how := c.cmd.ProcessState.String()
	if tail := c.output.tail(); tail != "" {
		how += ": " + tail
	}
	return errors.New(how)
}
