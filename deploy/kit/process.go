package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Patience is the timeout of each wait for an event that always happens, such as the
// start or the end of a process. It only ends a wait that hangs. A takeover in a
// cluster takes 10 s, and several times longer on a busy machine.
const Patience = 3 * time.Minute

// Command describes a program to start.
type Command struct {
	Name string    // for errors
	Path string    // of the program; a wrapper must exec the real program, so that signals reach it
	Args []string  // without the program's name
	Env  []string  // all of its environment: ours is not added
	Dir  string    // its working folder; empty: ours
	Log  io.Writer // gets a copy of its output; may be nil
	Keep int       // limit for its output in memory, in bytes; 0: no limit

	Stderr *os.File // its standard error; nil: it belongs to its output

	UID, GID uint32         // of its user and group; 0: ours
	Orphan   syscall.Signal // sent when this process dies, on Linux; 0: SIGKILL
}

// Process is a child of this process. On Linux the kernel kills it if this process
// dies without its cleanup.
type Process struct {
	Command
	Output *Output       // its standard output and standard error
	Began  time.Time     // right before its start
	Ended  chan struct{} // closed when it has exited and Wait has returned

	cmd *exec.Cmd
	in  io.Closer // its standard input; some children exit when it is closed

	mu       sync.Mutex // guards the fields below
	expected bool       // its exit is no fault: it is starting, or a caller asked it to exit
	killed   bool
}

// Start starts a program.
func Start(c Command) (*Process, error) {
	heedSignals()
	p := &Process{Command: c, cmd: exec.Command(c.Path, c.Args...), Output: NewOutput(c.Keep), Ended: make(chan struct{}), expected: true}
	p.cmd.Env = append([]string{}, c.Env...) // nil would mean our environment
	p.cmd.Dir = c.Dir
	p.cmd.Stdout = p.Output
	if c.Log != nil {
		p.cmd.Stdout = io.MultiWriter(p.Output, c.Log)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if c.Stderr != nil {
		p.cmd.Stderr = c.Stderr
	}
	p.cmd.SysProcAttr = childAttributes(c)
	p.cmd.WaitDelay = outputWithin
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	p.in = in
	started := make(chan error)
	go func() {
		// The kernel kills the child when the thread that started it ends, so
		// the thread must live until the child exits.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.Began = time.Now()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // ProcessState has the reason
			close(p.Ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

// outputWithin bounds the wait for the end of a process' output when the process has exited,
// because a child of its own may still have the pipe open.
const outputWithin = 10 * time.Second

// heedSignals gives SIGINT and SIGHUP their default effect in children if this process ignores
// them, as in a shell's background job or under nohup. The children would ignore them, too. A
// signal with a handler has its default effect in a child. Go programs inherit only these two.
func heedSignals() {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // the channel is not read, so this process still ignores the signal
		}
	}
}

// Pid returns its process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// ExitCode waits for its exit and returns the exit code, or -1 if a signal ended it. It kills a
// process that does not exit before the timeout.
func (p *Process) ExitCode() int {
	if err := p.await(); err != nil {
		fmt.Fprintln(p.Output, err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Gone reports whether it has exited.
func (p *Process) Gone() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// Guard reports its exit to fault, unless a caller asked for that exit.
func (p *Process) Guard(fault func(error)) {
	p.expect(false)
	go func() { // ends with the process
		<-p.Ended
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.expected {
			fault(p.Death())
		}
	}()
}

func (p *Process) expect(end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = end
}

// Death returns an error with its exit state and its last output.
func (p *Process) Death() error {
	return fmt.Errorf("%s ended: %s\n%s", p.Name, p.cmd.ProcessState, p.Output.Tail())
}

// Signal sends a signal. It returns an error if the process has exited.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Interrupt asks it to exit, and kills it if it does not exit before the timeout.
func (p *Process) Interrupt() error {
	p.expect(true)
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Kill() // this system has no such signal
		return nil
	}
	_ = p.in.Close()
	return p.end()
}

// Terminate is Interrupt with SIGTERM, which an orchestrator sends.
func (p *Process) Terminate() error {
	p.expect(true)
	_ = p.Signal(syscall.SIGTERM) // fails if the process has exited
	return p.end()
}

// await waits for the exit. It kills a process that does not exit before the timeout.
func (p *Process) await() error {
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-p.Ended:
		return nil
	case <-late.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %s\n%s", p.Name, Patience, p.Output.Tail())
	}
}

// end waits for an exit that a signal has asked for.
func (p *Process) end() error {
	if err := p.await(); err != nil {
		return err
	}
	if !p.cmd.ProcessState.Success() && !p.Killed() {
		return p.Death()
	}
	return nil
}

// Kill kills it at once, like a crash. It may be called again.
func (p *Process) Kill() {
	p.mu.Lock()
	p.expected, p.killed = true, true
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // fails if the process has exited
	<-p.Ended
}

// Killed reports whether Kill ended it.
func (p *Process) Killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// Line waits for a line of its output that contains text, and returns the line.
func (p *Process) Line(ctx context.Context, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	found := p.Output.Await(text)
	select {
	case line := <-found:
		return line, nil
	case <-p.Ended:
		select { // the line may be the last one
		case line := <-found:
			return line, nil
		default:
			return "", p.Death()
		}
	case <-ctx.Done():
		return "", fmt.Errorf("%s never writes %s: %w\n%s", p.Name, text, context.Cause(ctx), p.Output.Tail())
	}
}
