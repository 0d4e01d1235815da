package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Patience bounds each wait for what always comes: a process that starts or
// ends, a cluster that becomes whole. It only ends what hangs. A takeover takes
// 10 s, and several times that on a busy machine.
const Patience = 3 * time.Minute

// Command says which program to start, and how.
type Command struct {
	Name string    // in errors
	Path string    // of the program; what wraps another one has to become it, so that signals reach that
	Args []string  // without the program's name
	Env  []string  // all of its environment: ours is not added
	Dir  string    // where it runs; empty: where we do
	Log  io.Writer // gets a copy of its output; may be nil
	Keep int       // how many bytes of its last output are kept; 0: all

	UID, GID uint32         // it runs as these; 0: as we do
	Orphan   syscall.Signal // gets it when this process dies, on Linux; 0: SIGKILL
}

// Process is a child of this process. On Linux the kernel ends it when this
// process dies without its cleanups.
type Process struct {
	Command
	Output *Output       // what it wrote to standard output and standard error
	Began  time.Time     // right before its start
	Ended  chan struct{} // closed when it is gone and was waited for

	cmd *exec.Cmd
	in  io.Closer // its standard input; some children end when it does

	mu       sync.Mutex // guards what follows
	expected bool       // its end is no fault: it is starting, or was asked to end
	killed   bool
}

// Start starts a program.
func Start(c Command) (*Process, error) {
	p := &Process{Command: c, cmd: exec.Command(c.Path, c.Args...), Output: NewOutput(c.Keep), Ended: make(chan struct{}), expected: true}
	p.cmd.Env = append([]string{}, c.Env...) // nil would be ours
	p.cmd.Dir = c.Dir
	p.cmd.Stdout = p.Output
	if c.Log != nil {
		p.cmd.Stdout = io.MultiWriter(p.Output, c.Log)
	}
	p.cmd.Stderr = p.cmd.Stdout
	p.cmd.SysProcAttr = childAttributes(c)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	p.in = in
	started := make(chan error)
	go func() {
		// The kernel kills the child when the thread that started it ends, so the
		// thread has to last as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.Began = time.Now()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // its state tells how it ended
			close(p.Ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

// Pid is its process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// ExitCode is what it ended with; -1 where a signal ended it.
func (p *Process) ExitCode() int {
	<-p.Ended
	return p.cmd.ProcessState.ExitCode()
}

// Gone reports whether it has ended.
func (p *Process) Gone() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// Guard reports its end to fault, unless somebody asked for that end.
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

// Death tells how it ended, with its last output.
func (p *Process) Death() error {
	return fmt.Errorf("%s ended: %s\n%s", p.Name, p.cmd.ProcessState, p.Output.Tail())
}

// Signal sends a signal. That fails where it has ended.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Interrupt asks it to end, waits until it has, and kills it where it does not.
func (p *Process) Interrupt() error {
	p.expect(true)
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Kill() // this system has no such signal
		return nil
	}
	_ = p.in.Close()
	return p.end()
}

// Terminate does the same with SIGTERM, as an orchestrator does.
func (p *Process) Terminate() error {
	p.expect(true)
	_ = p.Signal(syscall.SIGTERM) // it fails where the process has ended
	return p.end()
}

// end waits for its end, which has been asked for.
func (p *Process) end() error {
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-p.Ended:
	case <-late.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %s\n%s", p.Name, Patience, p.Output.Tail())
	}
	if !p.cmd.ProcessState.Success() && !p.Killed() {
		return p.Death()
	}
	return nil
}

// Kill ends it at once, as a crash would. It may be called again.
func (p *Process) Kill() {
	p.mu.Lock()
	p.expected, p.killed = true, true
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // it fails where the process has ended
	<-p.Ended
}

// Killed reports whether Kill ended it.
func (p *Process) Killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// Line waits for a line of its output that contains text.
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
