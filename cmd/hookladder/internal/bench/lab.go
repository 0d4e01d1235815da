package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/signer"
)

// lab starts and ends what parts need.
type lab struct {
	o       Options
	dir     string // for files; removed at the end
	secret  signer.Secret
	sign    *signer.Signer
	callers *callers // to dispatchers
	bare    *callers // to the receiver
	limits  limits
	fault   func(error) // ends everything, for a reason
	tell    io.Writer   // progress

	sink *receiver // the one that all share; nil until it is asked for
	runs int       // how many names of runs there are
	pace pacing

	owned []func() error // what ends what was started, in order; each may be called again

	mu       sync.Mutex     // guards children
	children []*kit.Process // that were started; some have ended
}

func newLab(o Options, fault func(error)) (*lab, error) {
	secret := signer.NewSecret()
	sign, err := signer.NewSigner(secret)
	if err != nil {
		return nil, fmt.Errorf("make a secret: %w", err)
	}
	dir, err := os.MkdirTemp("", "hookladder-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for files: %w", err)
	}
	l := &lab{o: o, dir: dir, secret: secret, sign: sign, callers: newCallers(), bare: newCallers(), fault: fault, tell: o.Err}
	if kit.InMemory(dir) {
		fmt.Fprintf(l.tell, "note: %s lies in memory, so nothing here waits for a disk; set TMPDIR to a folder on one\n", dir)
	}
	return l, nil
}

// start starts a child, which ends at the latest with the bench.
func (l *lab) start(ctx context.Context, c kit.Command) (*kit.Process, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil { // killing has begun
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

// keepOutput is how many bytes of a child's last output are kept, for the error
// that tells of its end.
const keepOutput = 8 << 10

// kill ends all children at once, so that no call waits for their answers.
func (l *lab) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.children {
		p.Kill()
	}
}

// own has something ended with the lab, if not before.
func (l *lab) own(end func() error) { l.owned = append(l.owned, end) }

// close ends everything, what was started last first, and removes all files.
func (l *lab) close() error {
	var errs []error
	for _, end := range slices.Backward(l.owned) {
		errs = append(errs, end())
	}
	l.bare.close()
	l.kill()
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// size is how many of something there are: in a full bench or a quick one, and
// never more than --messages.
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

// load is the size of a measurement of throughput: --messages, where it is given.
func (l *lab) load(full, quick int) int {
	if l.o.Messages > 0 {
		return l.o.Messages
	}
	return l.size(full, quick)
}

// newRun makes a name that no other messages have: of their path at the
// receiver, and before the first _ of their ids.
func (l *lab) newRun(what string) string {
	l.runs++
	return what + strconv.Itoa(l.runs)
}

// environ is what children see of the environment: nothing that would set them
// otherwise than the bench does, and nothing secret.
func (l *lab) environ() (kept []string) {
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SystemRoot", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "GORACE", "GOCOVERDIR"} {
		if value := l.o.Environ[name]; value != "" {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}

// stopping has what was started in a part ended with it, and its error told.
func stopping(err *error, end func() error) { *err = errors.Join(*err, end()) }
