package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/signer"
)

// lab starts and ends the processes of the parts.
type lab struct {
	o       options
	dir     string // for files; removed at the end
	secret  signer.Secret
	sign    *signer.Signer
	callers *callers // to dispatchers
	bare    *callers // to the receiver
	limits  limits
	fault   func(error) // ends everything, with a reason

	sink *receiver // shared by all parts; nil until a part needs it
	runs int       // number of run names so far
	pace pacing

	owned []func() error // functions that close resources, in order of their start; each may be called again

	mu       sync.Mutex     // guards children
	children []*kit.Process // all that were started; some have exited
}

func newLab(o options, fault func(error)) (*lab, error) {
	secret := signer.NewSecret()
	sign, err := signer.NewSigner(secret)
	if err != nil {
		return nil, fmt.Errorf("make a secret: %w", err)
	}
	dir, err := os.MkdirTemp("", "hookladder-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for files: %w", err)
	}
	l := &lab{o: o, dir: dir, secret: secret, sign: sign, callers: newCallers(), bare: newCallers(), fault: fault}
	if kit.InMemory(dir) {
		fmt.Fprintf(os.Stderr, "note: %s lies in memory, so nothing here waits for a disk; set TMPDIR to a folder on one\n", dir)
	}
	return l, nil
}

// start starts a child, which ends with the bench at the latest.
func (l *lab) start(ctx context.Context, c kit.Command) (*kit.Process, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil { // kill was called
		return nil, context.Cause(ctx)
	}
	c.Keep = keepOutput
	p, err := kit.Start(c)
	if err != nil {
		return nil, err
	}
	l.children = append(l.children, p)
	return p, nil
}

// keepOutput is the limit for a child's output in memory, in bytes. The error that
// reports its exit includes this output.
const keepOutput = 8 << 10

// kill kills all children at once, so that no call waits for their replies.
func (l *lab) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.children {
		p.Kill()
	}
}

// own registers a function that close calls at the end of the lab.
func (l *lab) own(end func() error) { l.owned = append(l.owned, end) }

// close ends everything in reverse order and removes all files.
func (l *lab) close() error {
	var errs []error
	for _, end := range slices.Backward(l.owned) {
		errs = append(errs, end())
	}
	l.bare.close()
	l.kill()
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// cpuUse is the CPU time of all cores so far, in microseconds.
type cpuUse struct {
	all, used float64 // of the machine
	ours      float64 // of this process and its children
	known     bool
}

// cpuUse reads the CPU time of the machine and of all processes of the bench.
func (l *lab) cpuUse() (u cpuUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u.ours, _ = kit.Used(0) // includes the children that have exited
	for _, p := range l.children {
		if !p.Gone() {
			used, _ := kit.Used(p.Pid())
			u.ours += used
		}
	}
	u.all, u.used, u.known = kit.Machine()
	return u
}

// others returns the share of the CPU time that other programs have used since then. It
// is negative if that is not known.
func (u cpuUse) others(since cpuUse) float64 {
	if !u.known || u.all <= since.all {
		return -1
	}
	return max((u.used-since.used)-(u.ours-since.ours), 0) / (u.all - since.all)
}

// size returns full, or quick for a quick bench, but never more than -messages.
func (l *lab) size(full, quick int) int {
	n := full
	if l.o.Quick {
		n = quick
	}
	if l.o.Messages > 0 {
		n = min(n, l.o.Messages)
	}
	return n
}

// load returns the size of a measurement of throughput: -messages if it is given,
// and otherwise size.
func (l *lab) load(full, quick int) int {
	if l.o.Messages > 0 {
		return l.o.Messages
	}
	return l.size(full, quick)
}

// newRun returns a new name for a run. It is the path of the run's messages at the
// receiver, and the part of their ids before the first _.
func (l *lab) newRun(what string) string {
	l.runs++
	return what + strconv.Itoa(l.runs)
}

// environ returns the environment of children. It has no setting that could change
// the configuration of the bench, and no secret.
func (l *lab) environ() (kept []string) {
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SystemRoot", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "GORACE", "GOCOVERDIR"} {
		if value := os.Getenv(name); value != "" {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}

// stopping calls end when a part returns, and adds its error to err.
func stopping(err *error, end func() error) { *err = errors.Join(*err, end()) }
