package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/signer"
)

// fleet is a number of slots with an instance each.
type fleet struct {
	t        testing.TB
	h        *history
	receiver *receiver
	secret   signer.Secret
	binary   string
	names    *names // nil: the machine's own resolver
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
	*kit.Instance
	name string // b3: the third of slot b
	log  *logReader
}

func newFleet(t testing.TB, h *history, r *receiver, secret signer.Secret) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "hookladder-chaos")
	require.NoError(t, err)
	f := &fleet{t: t, h: h, receiver: r, secret: secret, dir: dir, binary: *chaosBinary}
	t.Cleanup(func() {
		for _, s := range f.slots {
			if p := s.process(); p != nil {
				p.Kill()
			}
		}
		if t.Failed() {
			fmt.Fprintln(t.Output(), "the instances' logs are in", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	if f.binary == "" {
		f.binary, err = kit.Binary()
		require.NoError(t, err)
	}
	return f
}

// process is the instance in the slot, or nil.
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
	return kit.Until(context.WithoutCancel(ctx), "an instance of "+s.name+" has started", func() error {
		p, err := f.spawn(s)
		if err != nil {
			return kit.Stop(err)
		}
		started, err := kit.Serve(context.WithoutCancel(ctx), p.Process)
		if err != nil {
			p.Kill()
			kit.Rest(ctx, 300*time.Millisecond)
			return errors.Join(err, ctx.Err())
		}
		p.Instance = started
		s.mu.Lock()
		s.now = p
		s.mu.Unlock()
		return nil
	})
}

func (f *fleet) spawn(s *slot) (*process, error) {
	s.mu.Lock()
	s.made++
	p := &process{name: s.name + strconv.Itoa(s.made)}
	s.mu.Unlock()
	own := signer.NewSecret()
	f.receiver.knows(p.name, own)
	file, err := os.Create(filepath.Join(f.dir, p.name+".log"))
	if err != nil {
		return nil, err
	}
	p.log = &logReader{fleet: f, name: p.name, file: file}
	command := []string{f.binary, "serve"}
	if f.names != nil {
		command = f.names.wrapped(command[0], command[1:]...)
	}
	child, err := kit.Start(kit.Command{
		Name: p.name, Path: command[0], Args: command[1:], Log: p.log, Keep: 8 << 10,
		Env: kit.Environ(s.url, f.secret, append([]string{
			"SIGNING_SECRET=" + f.secret.Reveal() + " " + own.Reveal(), "LOG_LEVEL=debug",
		}, f.env...)...),
	})
	if err != nil {
		return nil, err
	}
	p.Instance = &kit.Instance{Process: child}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, p)
	return p, nil
}

// logLine is what matters of a line of an instance's log.
type logLine struct {
	Time       time.Time
	Msg        string
	DeliveryID string `json:"delivery_id"`
	Attempt    int
	Verdict    string
	Status     int
	Err        string
	Deliveries int
}

// logReader reads an instance's log while it is written, and keeps it in a file.
type logReader struct {
	fleet   *fleet
	name    string
	file    *os.File
	partial []byte   // a line that has not ended
	broken  []string // lines that no process may ever write; read when the process has ended

	reads  sync.Mutex // held while nobody reads, and guards closed
	closed bool
}

// errLogClosed makes os/exec close the pipe.
var errLogClosed = errors.New("nobody reads the log any more")

// Write takes more of the log.
func (l *logReader) Write(text []byte) (int, error) {
	l.reads.Lock()
	defer l.reads.Unlock()
	if l.closed {
		return 0, errLogClosed
	}
	l.partial = append(l.partial, text...)
	for {
		line, rest, ended := bytes.Cut(l.partial, []byte("\n"))
		if !ended {
			return l.file.Write(text)
		}
		l.read(string(line))
		l.partial = bytes.Clone(rest)
	}
}

func (l *logReader) read(text string) {
	if strings.Contains(text, "DATA RACE") || strings.HasPrefix(text, "panic:") || strings.HasPrefix(text, "fatal error:") ||
		strings.Contains(text, "panicked") || strings.Contains(text, l.fleet.secret.Reveal()) {
		l.broken = append(l.broken, text)
	}
	var s logLine
	if json.Unmarshal([]byte(text), &s) != nil {
		return
	}
	switch msg, _, _ := strings.Cut(s.Msg, ":"); msg {
	case finished:
		l.fleet.h.note(note{at: s.Time, who: l.name, text: finished, id: s.DeliveryID, n: s.Attempt, ok: s.Verdict == "delivered", mute: s.Status == 0, blames: s.Verdict != "back" && strings.HasPrefix(s.Err, "lookup ")})
	case renamed, takeover, unrecorded, handedBack, tailGone, linesGone:
		l.fleet.h.note(note{at: s.Time, who: l.name, text: msg, n: s.Deliveries})
	}
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
// whatever was broken. After a loss there may be lanes whose endpoint was lost with another part of the store.
// The doctor repairs those, and only those.
func (f *fleet) examine(t testing.TB, afterLoss bool) {
	t.Helper()
	out, err := f.doctor()
	if left := findingsLeft.FindStringSubmatch(out); err != nil && afterLoss && left != nil && left[1] == strconv.Itoa(strings.Count(out, endless)) {
		_, _ = f.doctor("--fix") // what it left, the next one finds
		out, err = f.doctor()
	}
	if err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}

// endless is the finding of a lane without its endpoint.
const endless = "the lane belongs to an endpoint that does not exist"

var findingsLeft = regexp.MustCompile(`(\d+) findings are left`)

func (f *fleet) doctor(args ...string) (string, error) {
	doctor := exec.Command(f.binary, append([]string{"doctor"}, args...)...)
	doctor.Env = append([]string{"REDIS_URL=" + f.slots[0].url, kit.NoExitSleep}, f.env...)
	out, err := doctor.CombinedOutput()
	return string(out), err
}

// check fails the test where an instance wrote what none may ever write.
func (f *fleet) check(t testing.TB) {
	t.Helper()
	for _, p := range f.all {
		<-p.Ended
		_ = p.log.file.Close()
		for _, text := range p.log.broken {
			t.Errorf("%s: %s", p.name, text)
		}
	}
}

// memory is the most that an instance uses now, in bytes; 0 where the system
// does not tell.
func (f *fleet) memory() (most int64) {
	for _, s := range f.slots {
		if p := s.process(); p != nil {
			bytes, _ := kit.Memory(p.Pid())
			most = max(most, int64(bytes))
		}
	}
	return most
}

// between is a random time from one to the other.
func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)+1))
}
