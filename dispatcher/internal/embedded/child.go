package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/wait"
	"github.com/hookladder/hookladder/ladder"
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

// run starts the server, and restarts it when it dies, until stop is closed. If it dies
// before it has ever responded, run sends the reason to failed and returns.
func (r *Redis) run(failed chan<- error) {
	// The kernel ends the child together with the thread that made it, so this thread
	// must last as long as this goroutine.
	runtime.LockOSThread()
	defer close(r.ended)
	for delay, again := restartFirst, false; ; delay, again = min(2*delay, restartMost), true {
		began := time.Now()
		err := r.live(again)
		if err == nil {
			return
		}
		if time.Since(began) > restartCalm {
			delay = restartFirst
		}
		select {
		case <-r.ready:
		default:
			failed <- err
			return
		}
		r.o.Log.Error("embedded redis died, starting it again", "err", err, "wait_s", delay.Seconds())
		select {
		case <-r.stop:
			return
		case <-time.After(wait.Jitter(delay)):
		}
	}
}

// live starts the server, and returns when it has ended, and why; nil: because of stop. If
// its file ends in the middle of a change, live removes that and starts the server again.
func (r *Redis) live(again bool) error {
	for removed := false; ; removed = true {
		c, err := r.spawn(again)
		if err != nil {
			return err
		}
		if r.ends(c) {
			return nil
		}
		if removed || !c.output.cut() {
			return r.refusal(c)
		}
		if stopped, err := r.removeTail(); stopped || err != nil {
			return err
		}
	}
}

// ends waits until a process has ended, and reports whether stop made it end.
func (r *Redis) ends(c *child) (stopped bool) {
	select {
	case <-r.stop:
		c.end(r)
		return true
	case <-c.exited:
		return false
	}
}

// removeTail removes the last change from the append-only file, which a crash cut in its
// middle, so that it was not confirmed. The server could do that itself while it loads the
// file, with aof-load-truncated. But if the change was a transaction, Redis leaves its first
// commands in the file, and makes them at the start after the next one
// (https://github.com/valkey-io/valkey/pull/4342).
func (r *Redis) removeTail() (stopped bool, err error) {
	c := r.command("--fix", r.manifest())
	c.cmd.Args[0] = r.checker()            // by this name the server's program checks a file
	c.cmd.Stdin = strings.NewReader("y\n") // it asks whether it may
	c.cmd.Stdout = c.output
	r.o.Log.Warn("a crash cut the last change in the file of the embedded redis, which was not confirmed: removing it")
	r.checking.Store(true)
	defer r.checking.Store(false)
	if err := c.start(); err != nil {
		return false, err
	}
	if r.ends(c) {
		return true, nil
	}
	if !c.cmd.ProcessState.Success() {
		return false, fmt.Errorf("remove a change that a crash cut: %s --fix %s: %w", r.checker(), r.manifest(), c.death())
	}
	r.o.Log.Warn("the change is removed", "checker", c.output.tail()) // it says how many bytes that were
	return false, nil
}

// spawn starts the server.
func (r *Redis) spawn(again bool) (*child, error) {
	c := r.command(r.arguments()...)
	c.output.log, c.output.again = r.o.Log, again
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	if err := c.start(); err != nil {
		return nil, err
	}
	r.o.Log.Info("embedded redis started", "program", r.program, "pid", c.cmd.Process.Pid, "dir", r.dir)
	return c, nil
}

// command returns a process of the server's program that is not started yet. The process
// inherits the server lock, which stays locked while it lives. It inherits no environment,
// because that contains secrets.
func (r *Redis) command(arguments ...string) *child {
	c := &child{cmd: exec.Command(r.program, arguments...), output: &output{log: slog.New(slog.DiscardHandler)}, exited: make(chan struct{})}
	c.cmd.Dir = r.dir
	c.cmd.Env = []string{}
	c.cmd.ExtraFiles = []*os.File{r.servers}
	c.cmd.WaitDelay = outputTimeout
	c.cmd.SysProcAttr = processAttributes()
	return c
}

func (c *child) start() error {
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(c.cmd.Path), err)
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // ProcessState has the reason
	}()
	return nil
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
		"--aof-load-truncated", "no", // see removeTail
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

const (
	pollEvery    = 20 * time.Millisecond // a server with an empty file responds after some 20 ms
	maxStall     = time.Minute           // the longest time without progress of the load; a file of 1 GiB takes some ten seconds
	queryTimeout = time.Second           // the server is on this machine
)

// await returns when the server responds for the first time.
func (r *Redis) await(ctx context.Context, failed <-chan error) error {
	logged, loaded, progress := false, int64(-1), time.Now()
	for {
		_, err := query(ctx, r.socket, "PING")
		if err == nil {
			return nil
		}
		if errors.Is(err, errLoading) {
			bytes, total := r.loading(ctx)
			if !logged {
				r.o.Log.Info("embedded redis loads its file", "bytes", total)
				logged = true
			}
			if bytes != loaded { // fewer: it was started again
				loaded, progress = bytes, time.Now()
			}
		}
		if r.checking.Load() { // that takes as long as it takes to read the file
			progress = time.Now()
		}
		if time.Since(progress) > maxStall {
			return fmt.Errorf("%s has made no progress for %s: %w", filepath.Base(r.program), ladder.FormatDuration(maxStall), err)
		}
		select {
		case err := <-failed:
			return err
		default:
		}
		if !wait.Sleep(ctx, pollEvery) {
			return fmt.Errorf("wait for %s: %w", filepath.Base(r.program), context.Cause(ctx))
		}
	}
}

// loading returns how many bytes of its file the server has read; -1: the server does not
// report it.
func (r *Redis) loading(ctx context.Context) (bytes, total int64) {
	bytes, total = -1, -1
	text, err := query(ctx, r.socket, "INFO persistence")
	if err != nil {
		return bytes, total
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "loading_loaded_bytes":
			bytes = n
		case "loading_total_bytes":
			total = n
		}
	}
	return bytes, total
}

// refusal returns the reason why the server ended, and the cure if it did not start.
func (r *Redis) refusal(c *child) error {
	err := fmt.Errorf("%s ended: %w", filepath.Base(r.program), c.death())
	if !c.output.damaged() {
		return err
	}
	return fmt.Errorf("%w; its append-only file is damaged: copy %s, then run %s --fix %s, which removes the changes after the damage", err, r.dir, r.checker(), r.manifest())
}

// checker returns the name of the program that checks append-only files.
func (r *Redis) checker() string {
	return strings.Replace(filepath.Base(r.program), "-server", "-check-aof", 1)
}

// manifest returns the list of the server's append-only files.
func (r *Redis) manifest() string {
	return filepath.Join(r.dir, "appendonlydir", "appendonly.aof.manifest")
}

var errLoading = errors.New("it loads its file")

// query sends one command on a connection of its own and returns the text of the
// response. It does not use a client of Redis, because the client would wait between its
// retries while the server starts, and would send commands that a loading server refuses.
func query(ctx context.Context, socket, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // it was only read
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return "", err
	}
	answer := bufio.NewReader(conn)
	line, err := answer.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(line, "-LOADING"):
		return "", errLoading
	case strings.HasPrefix(line, "$"):
		length, err := strconv.Atoi(line[1:])
		if err != nil || length < 0 {
			return "", fmt.Errorf("unexpected answer %q", line)
		}
		text := make([]byte, length)
		_, err = io.ReadFull(answer, text)
		return string(text), err
	case strings.HasPrefix(line, "+"):
		return line[1:], nil
	}
	return "", errors.New(strings.TrimPrefix(line, "-"))
}

// output receives the warnings that the server prints, one a line. It logs them, and
// keeps the last lines to explain why the server died.
type output struct {
	log   *slog.Logger
	again bool // this is a restart, so its advice is in the log already

	mu      sync.Mutex // guards the fields below
	partial []byte     // the line that has no end yet
	lines   []string   // the last keepLines
	leaving bool       // the server is ending, and its lines about that are no warnings
}

const (
	keepLines = 10
	maxLine   = 4 << 10 // a longer line is cut
)

// stamp is the server's prefix of a warning: its pid, the time and the level.
var stamp = regexp.MustCompile(`^\d+:(?:[A-Z] .{0,30}? [.*#-]|signal-handler \(\d+\)) `)

// routine has parts of lines that are no warnings, because the server prints them at
// every start.
var routine = []string{"is starting", "just started", "Configuration loaded", "Server initialized"}

// Write processes output of the server.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if room := maxLine - len(o.partial); room > 0 {
			o.partial = append(o.partial, line[:min(len(line), room)]...)
		}
		if whole {
			o.line(strings.TrimSpace(stamp.ReplaceAllString(string(o.partial), "")))
			o.partial = o.partial[:0]
		}
		rest = after
	}
	return len(p), nil
}

// line processes a whole line. The caller holds mu.
func (o *output) line(text string) {
	if text == "" || strings.Contains(text, "argv") { // the line would log data of a client
		return
	}
	for _, words := range routine {
		if strings.Contains(text, words) {
			return
		}
	}
	advice := strings.HasPrefix(text, "WARNING") // about the machine's settings, which no server dies of
	if !advice {
		o.lines = append(o.lines, text)
		o.lines = o.lines[max(0, len(o.lines)-keepLines):]
	}
	level := slog.LevelWarn
	switch {
	case o.leaving || advice && o.again:
		level = slog.LevelDebug
	case advice: // it is the same at every start
		level = slog.LevelInfo
	}
	o.log.Log(context.Background(), level, "embedded redis says", "text", text)
}

// farewell is called before the server is stopped, because its lines about that are no
// warnings.
func (o *output) farewell() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leaving = true
}

// lastFew is how many lines explain a death: the place and the reason.
const lastFew = 3

// tail returns the last lines.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines[max(0, len(o.lines)-lastFew):], "; ")
}

// damaged reports whether the server printed that its append-only file is damaged.
func (o *output) damaged() bool { return o.says("check-aof", "Bad file format", "AOF manifest") }

// cut reports whether the server printed that its append-only file ends in the middle of a
// change.
func (o *output) cut() bool { return o.says("Unexpected end of file reading the append only file") }

// says reports whether one of the last lines has one of the texts.
func (o *output) says(texts ...string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.lines, func(line string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) })
	})
}
