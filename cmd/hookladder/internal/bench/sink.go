package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/signer"
)

// destinations that the receiver has: one, and a hundred others. Each is a port,
// since that makes a destination.
const destinations = 1 + many

// opened is what the receiver says first: where it listens.
type opened struct {
	Control      string   `json:"control"`
	Destinations []string `json:"destinations"`
}

// question is what the bench asks the receiver about a run.
type question struct {
	Run      string
	Begin    *runOptions   // how its messages are to be received; nil: as before
	Want     int           // the answer waits until so many have come
	Most     time.Duration // for which it waits
	Arrivals bool          // the answer tells when each came
	Forget   bool          // the run is over
}

// received is what has come of a run.
type received struct {
	Distinct int              `json:"distinct"`
	All      int              `json:"all"`
	Bad      int              `json:"bad"`
	Why      string           `json:"why,omitempty"` // the first bad one was
	First    int64            `json:"first"`         // in nanoseconds
	Last     int64            `json:"last"`
	Arrivals map[string]int64 `json:"arrivals,omitempty"` // by id, in nanoseconds
}

// fault is what is wrong with what has come, if n were sent.
func (r received) fault(run string, n int) error {
	switch {
	case r.Bad > 0:
		return fmt.Errorf("%d messages of %s came unsigned or changed: %s", r.Bad, run, r.Why)
	case r.Distinct < n:
		return fmt.Errorf("%d of %d messages of %s are lost", n-r.Distinct, n, run)
	case r.Distinct > n:
		return fmt.Errorf("%d messages of %s came and only %d were sent", r.Distinct, run, n)
	case r.All > n:
		return fmt.Errorf("%d messages of %s came twice", r.All-n, run)
	}
	return nil
}

// Receive is the receiver, as a process: it says on out where it listens, and
// lasts until ctx ends, or in, which does so when its parent is gone.
func Receive(ctx context.Context, verifier *signer.Verifier, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &sink{runs: map[string]*run{}}
	var listeners []net.Listener
	var open opened
	for range destinations + 1 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		defer ln.Close() //nolint:errcheck // the servers close it
		listeners = append(listeners, ln)
		open.Destinations = append(open.Destinations, ln.Addr().String())
	}
	open.Control, open.Destinations = open.Destinations[0], open.Destinations[1:]
	asking := &http.Server{Handler: http.HandlerFunc(s.control), ReadHeaderTimeout: kit.Patience}
	taking := &http.Server{Handler: kit.NewReceiver(verifier, s.take), ReadHeaderTimeout: kit.Patience}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return served(asking.Serve(listeners[0])) })
	for _, ln := range listeners[1:] {
		g.Go(func() error { return served(taking.Serve(ln)) })
	}
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	g.Go(func() error {
		<-ctx.Done()
		return errors.Join(asking.Close(), taking.Close())
	})
	if err := json.NewEncoder(out).Encode(open); err != nil {
		return fmt.Errorf("tell where it listens: %w", err)
	}
	return g.Wait()
}

// served is no error where the server was closed.
func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("receive: %w", err)
}

// sink checks what comes and remembers it.
type sink struct {
	mu   sync.Mutex // guards runs
	runs map[string]*run
}

// run is what has come with a path.
type run struct {
	name string

	mu      sync.Mutex // guards what follows
	o       runOptions
	seen    map[string]int64 // id → when it came, 0 where that is not wanted
	so      received
	want    int
	reached chan struct{} // closed when want is
}

func (s *sink) run(name string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[name]
	if r == nil {
		r = &run{name: name, seen: map[string]int64{}}
		s.runs[name] = r
	}
	return r
}

// take takes a message.
func (s *sink) take(_ http.ResponseWriter, req *http.Request, c kit.Callback) {
	if c.Err == nil && !genuine(c.Body) {
		c.Err = errors.New("its body is not one that was published")
	}
	if delay := s.run(c.Path[1:]).take(c.ID, c.At, c.Err); delay > 0 {
		kit.Rest(req.Context(), delay)
	}
}

// take notes a message and answers how long its answer is to wait.
func (r *run) take(id string, now time.Time, err error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && !(strings.HasPrefix(id, r.name) && strings.HasPrefix(id[len(r.name):], "_")) {
		err = errors.New("it belongs to another run")
	}
	if err != nil {
		r.so.Bad++
		if r.so.Why == "" {
			r.so.Why = fmt.Sprintf("%q: %s", id, err)
		}
	}
	r.so.All++
	if r.so.All == 1 {
		r.so.First = now.UnixNano()
	}
	if _, known := r.seen[id]; known {
		return r.o.Delay
	}
	at := int64(0)
	if r.o.Times {
		at = now.UnixNano()
	}
	r.seen[id] = at
	r.so.Last = now.UnixNano()
	if len(r.seen) == r.want {
		close(r.reached)
		r.want = 0
	}
	return r.o.Delay
}

// control answers a question.
func (s *sink) control(w http.ResponseWriter, req *http.Request) {
	var q question
	if err := json.NewDecoder(req.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r := s.run(q.Run)
	if q.Forget {
		s.mu.Lock()
		delete(s.runs, q.Run)
		s.mu.Unlock()
	}
	if q.Begin != nil {
		r.mu.Lock()
		r.o = *q.Begin
		r.mu.Unlock()
	}
	if reached := r.reach(q.Want); reached != nil {
		select {
		case <-reached:
		case <-time.After(q.Most):
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := r.so
	answer.Distinct = len(r.seen)
	if q.Arrivals {
		answer.Arrivals = r.seen
	}
	_ = json.NewEncoder(w).Encode(answer) // it fails where the caller is gone
}

// reach answers what is closed when n have come; nil where they have.
func (r *run) reach(n int) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) >= n {
		return nil
	}
	r.want, r.reached = n, make(chan struct{})
	return r.reached
}
