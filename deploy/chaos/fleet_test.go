package chaos_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/signer"
)

const (
	// startWithin is how long a process may take until it says that it has
	// started, on a machine that has too much to do.
	startWithin = 3 * time.Minute
	// endWithin is the same for its end: its grace, and its last outcomes.
	endWithin = 3 * time.Minute
)

// fleet is a number of slots with an instance each.
type fleet struct {
	t        testing.TB
	h        *history
	receiver *receiver
	secret   signer.Secret
	binary   string
	dir      string // of the logs
	env      []string

	slots []*slot

	mu  sync.Mutex // guards all
	all []*process // that were ever started
}

// slot is a place for one instance at a time, with its own way to the store.
type slot struct {
	name string // a, b …
	url  string // of the store

	mu   sync.Mutex // guards what follows
	now  *process   // nil: none is started
	made int        // processes so far
}

// process is one instance from its start to its end.
type process struct {
	name   string // b3: the third of slot b
	cmd    *exec.Cmd
	api    *client.Client
	base   string        // of the API
	ready  chan struct{} // closed when it has started
	done   chan struct{} // closed when it has ended and all it said is read
	guard  io.Closer
	broken []string // lines that no process may ever write; read when it is done
}

func newFleet(t testing.TB, h *history, r *receiver, secret signer.Secret) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "hookladder-chaos")
	require.NoError(t, err)
	f := &fleet{t: t, h: h, receiver: r, secret: secret, dir: dir, binary: filepath.Join(dir, "hookladder")}
	t.Cleanup(func() {
		for _, s := range f.slots {
			if p := s.process(); p != nil {
				p.kill()
			}
		}
		if t.Failed() {
			_ = os.Remove(filepath.Join(dir, "hookladder"))
			fmt.Fprintln(t.Output(), "the instances' logs are in", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	if *chaosBinary != "" {
		f.binary = *chaosBinary
		return f
	}
	out, err := exec.Command("go", "build", "-race", "-o", f.binary, "github.com/hookladder/hookladder/cmd/hookladder").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return f
}

// process is who is in the slot, or nil.
func (s *slot) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// leave empties a slot.
func (s *slot) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = nil
}

// start starts an instance in a slot and waits until it takes calls. While the
// store is away an instance may give up; then another is started.
func (f *fleet) start(ctx context.Context, s *slot) error {
	for failed := 0; ; failed++ {
		p, err := f.spawn(s)
		if err != nil {
			return err
		}
		late := time.NewTimer(startWithin)
		select {
		case <-p.ready:
			late.Stop()
			s.mu.Lock()
			s.now = p
			s.mu.Unlock()
			return nil
		case <-p.done:
			late.Stop()
			if failed > 60 {
				return fmt.Errorf("%s does not start", p.name)
			}
			pause(ctx, 300*time.Millisecond)
		case <-late.C:
			p.kill()
			return fmt.Errorf("%s does not start", p.name)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (f *fleet) spawn(s *slot) (*process, error) {
	s.mu.Lock()
	s.made++
	p := &process{name: s.name + strconv.Itoa(s.made), ready: make(chan struct{}), done: make(chan struct{})}
	s.mu.Unlock()
	own := signer.NewSecret()
	f.receiver.knows(p.name, own)
	p.cmd = exec.Command(f.binary, "serve")
	p.cmd.Env = append([]string{
		"REDIS_URL=" + s.url, "LISTEN=127.0.0.1:0", "SIGNING_SECRET=" + f.secret.Reveal() + " " + own.Reveal(),
		"ALLOW_NETS=127.0.0.0/8", "LOG_LEVEL=debug", "GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH"),
	}, f.env...)
	out, in := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = in, in
	log, err := os.Create(filepath.Join(f.dir, p.name+".log"))
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if p.guard, err = guard(p.cmd.Process.Pid); err != nil {
		return nil, errors.Join(err, p.cmd.Process.Kill(), p.cmd.Wait(), log.Close())
	}
	f.mu.Lock()
	f.all = append(f.all, p)
	f.mu.Unlock()
	go func() {
		_ = p.cmd.Wait() // how it ended is read from its state
		_ = in.Close()
	}()
	go func() {
		defer close(p.done)
		f.listen(p, io.TeeReader(out, log))
		_ = log.Close()
		_ = p.guard.Close()
	}()
	return p, nil
}

// said is what matters of a log line.
type said struct {
	Time       time.Time
	Level      string
	Msg        string
	Listen     string
	DeliveryID string `json:"delivery_id"`
	Attempt    int
	Verdict    string
	Status     int
	Deliveries int
}

// listen reads a process's log to its end.
func (f *fleet) listen(p *process, log io.Reader) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := lines.Text()
		if strings.Contains(text, "DATA RACE") || strings.HasPrefix(text, "panic:") || strings.HasPrefix(text, "fatal error:") ||
			strings.Contains(text, "panicked") || strings.Contains(text, f.secret.Reveal()) {
			p.broken = append(p.broken, text)
		}
		var s said
		if json.Unmarshal([]byte(text), &s) != nil {
			continue
		}
		switch s.Msg {
		case "started":
			p.base = "http://" + s.Listen
			p.api, _ = client.New(p.base, "") // the address is one
			close(p.ready)
		case finished:
			f.h.note(note{at: s.Time, who: p.name, text: finished, id: s.DeliveryID, n: s.Attempt, ok: s.Verdict == "delivered", mute: s.Status == 0})
		case renamed, takeover, unrecorded, handedBack:
			f.h.note(note{at: s.Time, who: p.name, text: s.Msg, n: s.Deliveries})
		}
	}
	_, _ = io.Copy(io.Discard, log) // a line that is too long must not block its writer
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// kill ends it as a crash would.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// end asks it to end, kills it where it does not, and answers whether it ended
// as it should.
func (p *process) end() error {
	p.signal(syscall.SIGTERM)
	late := time.NewTimer(endWithin)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		p.kill()
		return fmt.Errorf("%s did not end within %s", p.name, endWithin)
	}
	return nil
}

// any is a process that takes calls, or nil.
func (f *fleet) any(random *rand.Rand) *process {
	for _, i := range random.Perm(len(f.slots)) {
		if p := f.slots[i].process(); p != nil {
			return p
		}
	}
	return nil
}

// examine has the doctor look through the store, where nothing may be wrong
// whatever was broken.
func (f *fleet) examine(t testing.TB) {
	t.Helper()
	doctor := exec.Command(f.binary, "doctor")
	doctor.Env = append([]string{"REDIS_URL=" + f.slots[0].url, "GORACE=atexit_sleep_ms=0"}, f.env...)
	if out, err := doctor.CombinedOutput(); err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}

// check fails the test where an instance said what none may ever say.
func (f *fleet) check(t testing.TB) {
	t.Helper()
	for _, p := range f.all {
		<-p.done
		for _, text := range p.broken {
			t.Errorf("%s: %s", p.name, text)
		}
	}
}

// memory is the most that an instance uses now, in bytes; 0 where the system
// does not tell.
func (f *fleet) memory() (most int64) {
	for _, s := range f.slots {
		p := s.process()
		if p == nil {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
		if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			most = max(most, pages*int64(os.Getpagesize()))
		}
	}
	return most
}

// guard kills a process when this one dies without its cleanups, as it does
// when its time limit is over: a shell waits for the end of a pipe that only we
// hold open.
func guard(pid int) (io.Closer, error) {
	cmd := exec.Command("/bin/sh", "-c", `read -r _ || kill -9 "$0" 2>/dev/null`, strconv.Itoa(pid))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard an instance: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard an instance: %w", err)
	}
	return closer(func() error {
		_, err := io.WriteString(in, "\n")
		return errors.Join(err, in.Close(), cmd.Wait())
	}), nil
}

type closer func() error

func (c closer) Close() error { return c() }

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-ctx.Done():
	case <-wait.C:
	}
}

// between is a random time from one to the other.
func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)+1))
}
