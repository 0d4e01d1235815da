package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Backoff before a server that died is started again. It doubles from restartFirst to
// restartMost, and starts over once the server has run for restartCalm.
const (
	restartFirst = 100 * time.Millisecond
	restartMost  = 5 * time.Second
	restartCalm  = time.Minute
)

// stopTimeout is how long the server may take to write its data. Data that is not synced
// by then is in the system's buffers, and reaches the disk unless the machine dies.
const stopTimeout = 10 * time.Second

// outputTimeout is how long we wait for the output of a server that ended. One of its own
// children, which rewrites the file, may keep the pipe open.
const outputTimeout = time.Second

// child is one process of the server.
type child struct {
	cmd    *exec.Cmd
	output *output
	exited chan struct{} // closed when the process has ended
}

// firstStart is the result of the first start.
type firstStart struct {
	child *child
	err   error
}

// run starts the server, and restarts it when it dies, until stop is closed.
func (r *Redis) run(started chan<- firstStart) {
	// The kernel ends the child together with the thread that made it, so this thread
	// must last as long as this goroutine.
	runtime.LockOSThread()
	defer close(r.ended)
	c, err := r.spawn(false)
	started <- firstStart{c, err}
	if err != nil {
		return
	}
	for delay := restartFirst; ; delay = min(2*delay, restartMost) {
		began := time.Now()
		if err == nil {
			if r.watch(c) {
				return
			}
			err = c.death()
		}
		if time.Since(began) > restartCalm {
			delay = restartFirst
		}
		r.o.Log.Error("embedded redis died, starting it again", "err", err, "wait_s", delay.Seconds())
		select {
		case <-r.stop:
			return
		case <-time.After(wait.Jitter(delay)):
		}
		c, err = r.spawn(true)
	}
}

// watch returns when the server ended. last reports that it must not be restarted.
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
	case <-r.stop: // Start waits for the first response and returns the reason
		return true
	}
}

// spawn starts a process. The process inherits the server lock, which stays locked while
// it lives. It inherits no environment, because that contains secrets.
func (r *Redis) spawn(again bool) (*child, error) {
	c := &child{output: &output{log: r.o.Log, again: again}, exited: make(chan struct{})}
	c.cmd = exec.Command(r.program, r.arguments()...)
	c.cmd.Dir = r.dir
	c.cmd.Env = []string{}
	c.cmd.ExtraFiles = []*os.File{r.servers}
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.WaitDelay = outputTimeout
	c.cmd.SysProcAttr = processAttributes()
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(r.program), err)
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // ProcessState has the reason
	}()
	r.o.Log.Info("embedded redis started", "program", r.program, "pid", c.cmd.Process.Pid, "dir", r.dir)
	return c, nil
}

// arguments returns the settings that differ from the server's defaults.
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
		"--crash-log-enabled", "no", // the log would print data of clients
		"--dir", r.dir,
		"--save", "", // the append-only file has all data
		"--appendonly", "yes",
		"--appendfsync", fsync,
		"--no-appendfsync-on-rewrite", "no",
		"--aof-load-truncated", "yes", // a power loss may cut the last change, which was not confirmed
		"--maxmemory", strconv.FormatInt(memory(), 10),
		"--maxmemory-policy", "noeviction",
		"--lazyfree-lazy-user-del", "yes",
		"--lazyfree-lazy-server-del", "yes",
	}, r.o.settings...)
}

// end makes the server write its data, and waits until the process has ended.
func (c *child) end(r *Redis) {
	c.output.farewell()
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	select {
	case <-c.exited:
		return
	case <-late.C:
	}
	r.o.Log.Warn("embedded redis did not end, killing it", "waited_s", stopTimeout.Seconds())
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// death returns how the process ended, with the last lines that it printed.
func (c *child) death() error {
	how := c.cmd.ProcessState.String()
	if tail := c.output.tail(); tail != "" {
		how += ": " + tail
	}
	return errors.New(how)
}
