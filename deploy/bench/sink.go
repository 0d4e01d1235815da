package main

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

// destinations is the number of the receiver's destinations: one, and a hundred
// others. Each is a port, because each port is a destination of its own.
const destinations = 1 + many

// opened is the first output of the receiver: its addresses.
type opened struct {
	Control      string   `json:"control"`
	Destinations []string `json:"destinations"`
}

// question is a query of the bench about a run.
type question struct {
	Run      string
	Begin    *runOptions   // options for its messages; nil: no change
	Want     int           // respond when this number of messages has arrived
	Most     time.Duration // timeout for Want
	Arrivals bool          // return the arrival time of each message
	Forget   bool          // remove the run
}

// received has the arrivals of a run.
type received struct {
	Distinct int              `json:"distinct"`
	All      int              `json:"all"`
	Bad      int              `json:"bad"`
	Why      string           `json:"why,omitempty"` // the error of the first bad message
	First    int64            `json:"first"`         // in nanoseconds
	Last     int64            `json:"last"`
	Arrivals map[string]int64 `json:"arrivals,omitempty"` // by id, in nanoseconds
}

// fault returns an error if the arrivals differ from the n messages that were sent.
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

// receive runs the receiver process. It writes its addresses to out, and runs until
// ctx or in ends. in ends when the parent process exits.
func receive(ctx context.Context, verifier *signer.Verifier, in io.Reader, out io.Writer) error {
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
		return fmt.Errorf("report the address of the receiver: %w", err)
	}
	return g.Wait()
}

// served returns nil if the error is only that the server was closed.
func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("receive: %w", err)
}

// sink verifies messages and counts them.
type sink struct {
	mu   sync.Mutex // guards runs
	runs map[string]*run
}

// run has the messages that arrived at one path.
type run struct {
	name string

	mu      sync.Mutex // guards the fields below
	o       runOptions
	seen    map[string]int64 // id → arrival time, or 0 if times are not kept
	so      received
	want    int
	reached chan struct{} // closed when want messages have arrived
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

// take accepts a message.
func (s *sink) take(_ http.ResponseWriter, req *http.Request, c kit.Callback) {
	if c.Err == nil && !genuine(c.Body) {
		c.Err = errors.New("its body is not one that was published")
	}
	if delay := s.run(c.Path[1:]).take(c.ID, c.At, c.Err); delay > 0 {
		kit.Rest(req.Context(), delay)
	}
}

// take counts a message and returns how long its response must wait.
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

// control responds to a query of the bench.
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
	_ = json.NewEncoder(w).Encode(answer) // fails if the caller has closed the connection
}

// reach returns a channel that is closed when n messages have arrived, or nil if they
// have arrived already.
func (r *run) reach(n int) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) >= n {
		return nil
	}
	r.want, r.reached = n, make(chan struct{})
	return r.reached
}
