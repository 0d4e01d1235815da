package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

const (
	// stopMost is how long a process may take to end in order: more than a
	// dispatcher gives attempts under way. It only ends what hangs.
	stopMost = 2 * time.Minute
	// startMost is the same for being ready, which takes a second, and on a busy
	// machine many.
	startMost = 3 * time.Minute
	// saidMost is how many bytes of what a process said last are kept, for the
	// error that tells of its end.
	saidMost = 8 << 10
)

// process is a child of this one.
type process struct {
	name  string
	cmd   *exec.Cmd
	began time.Time // right before its start
	in    io.Closer // its standard input: at its end the receiver ends too
	said  *said
	ended chan struct{} // closed when it is gone and was waited for

	mu       sync.Mutex // guards what follows
	expected bool       // its end is no fault: it is starting, or was asked to end
	dead     bool       // it was killed
}

// spawn starts a program with that environment only.
func spawn(name, program string, args, environ []string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(program, args...), said: newSaid(), ended: make(chan struct{}), expected: true}
	p.cmd.Env = append([]string{}, environ...) // nil would be our own
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	p.cmd.SysProcAttr = childAttributes()
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	born := make(chan error)
	go func() {
		// The kernel ends the child together with the thread that made it, so this
		// one must last as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.began = time.Now()
		err := p.cmd.Start()
		born <- err
		if err == nil {
			_ = p.cmd.Wait() // its state says how it ended
			close(p.ended)
		}
	}()
	if err := <-born; err != nil {
		return nil, err
	}
	return p, nil
}

// guard has its end reported, unless it is asked for. It is not waited for: it
// ends when the process does.
func (p *process) guard(fault func(error)) {
	p.expect(false)
	go func() {
		<-p.ended
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.expected {
			fault(p.death())
		}
	}()
}

func (p *process) expect(end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = end
}

// death says how it ended, and what it said at last.
func (p *process) death() error {
	return fmt.Errorf("%s ended: %s\n%s", p.name, p.cmd.ProcessState, p.said.last())
}

// stop asks it to end, and kills it when it does not.
func (p *process) stop() error {
	if p.killed() {
		return nil
	}
	p.expect(true)
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.kill() // where there is no such signal
		return nil
	}
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(stopMost):
		p.kill()
		return fmt.Errorf("%s did not end within %s", p.name, stopMost)
	}
	if !p.cmd.ProcessState.Success() {
		return p.death()
	}
	return nil
}

// kill ends it at once.
func (p *process) kill() {
	p.mu.Lock()
	p.expected, p.dead = true, true
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // an error says that it has ended
	<-p.ended
}

func (p *process) killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// line waits for a line of what it says, and answers it.
func (p *process) line(ctx context.Context, with string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, startMost)
	defer cancel()
	found := p.said.await([]byte(with))
	select {
	case line := <-found:
		return line, nil
	case <-p.ended:
		return nil, p.death()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s does not start: %w\n%s", p.name, ctx.Err(), p.said.last())
	}
}

// said is what a process says, line by line.
type said struct {
	mu     sync.Mutex // guards what follows
	lines  []byte     // the last ones
	rest   []byte     // a line that has not ended
	wanted []byte     // part of the line that is waited for; nil: none is
	found  chan []byte
}

func newSaid() *said { return &said{found: make(chan []byte, 1)} }

// await answers where the first line that has that will come.
func (s *said) await(with []byte) <-chan []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = with
	for line := range bytes.Lines(s.lines) {
		s.look(line)
	}
	return s.found
}

// look sees whether a line is the one that is waited for.
func (s *said) look(line []byte) {
	if s.wanted != nil && bytes.Contains(line, s.wanted) {
		s.wanted = nil
		s.found <- bytes.Clone(line)
	}
}

// Write takes more of what is said.
func (s *said) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, text...)
	for {
		line, rest, ended := bytes.Cut(s.rest, []byte("\n"))
		if !ended {
			return len(text), nil
		}
		s.look(line)
		s.lines = append(append(s.lines, line...), '\n')
		if over := len(s.lines) - saidMost; over > 0 {
			s.lines = bytes.Clone(s.lines[over:])
		}
		s.rest = bytes.Clone(rest)
	}
}

// last is what was said last.
func (s *said) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(bytes.TrimSpace(append(bytes.Clone(s.lines), s.rest...)))
}
