package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

// expectMost is the timeout without a new message before the rest counts as lost. It
// is longer than the time of an attempt without a response and its retry.
const expectMost = 3 * time.Minute

// waitMost is the timeout of one query for arrivals. After it the bench checks
// whether any new message has arrived.
const waitMost = 5 * time.Second

// receiver is the client of the receiver process, to which all messages go. That
// process verifies the signature and body of each message.
type receiver struct {
	process *kit.Process
	urls    []string
	control string // its URL for the queries below
	http    *http.Client
}

// runOptions configure how the receiver handles a run's messages. By default it
// responds at once and keeps no times.
type runOptions struct {
	Delay time.Duration `json:"delay"` // before the response
	Times bool          `json:"times"` // keep the time of each arrival
}

// came has the times of a run's first and last arrival.
type came struct{ first, last time.Time }

// receiverSecret is the variable with the secret of the receiver process.
const receiverSecret = "SIGNING_SECRET"

// receiver starts the receiver, or returns it if it runs.
func (l *lab) receiver(ctx context.Context) (*receiver, error) {
	if l.sink != nil {
		return l.sink, nil
	}
	environ := append(l.environ(), receiverSecret+"="+l.secret.Reveal())
	p, err := l.start(ctx, kit.Command{Name: "the receiver", Path: l.o.Self, Args: []string{receiverArg}, Env: environ})
	if err != nil {
		return nil, err
	}
	l.own(sync.OnceValue(func() error { return stop(p) }))
	line, err := p.Line(ctx, `"control":`)
	if err != nil {
		return nil, err
	}
	var open opened
	if err := json.Unmarshal([]byte(line), &open); err != nil {
		return nil, fmt.Errorf("the receiver does not report its address: %s", line)
	}
	p.Guard(l.fault)
	l.sink = &receiver{process: p, control: "http://" + open.Control, http: &http.Client{}}
	for _, addr := range open.Destinations {
		l.sink.urls = append(l.sink.urls, "http://"+addr)
	}
	return l.sink, nil
}

// url returns the URL of a destination without a path. The number is 0, or 1 to 100
// for one of the many destinations.
func (r *receiver) url(i int) string { return r.urls[i] }

// cpu returns its CPU time so far, in microseconds.
func (r *receiver) cpu() (micros float64, known bool) { return kit.CPU(r.process.Pid()) }

// begin configures how the receiver handles a run's messages. Call it before the
// first message.
func (r *receiver) begin(ctx context.Context, run string, o runOptions) error {
	_, err := r.ask(ctx, question{Run: run, Begin: &o})
	return err
}

// expect waits until n messages of a run have arrived. It returns an error if a
// message is lost, or arrives twice, unsigned or changed.
func (r *receiver) expect(ctx context.Context, run string, n int) (came, error) {
	var have received
	for progress := time.Now(); ; {
		before := have.Distinct
		var err error
		if have, err = r.ask(ctx, question{Run: run, Want: n, Most: waitMost}); err != nil {
			return came{}, err
		}
		if have.Distinct > before {
			progress = time.Now()
		}
		if have.Distinct >= n || have.Bad > 0 || time.Since(progress) > expectMost {
			return came{time.Unix(0, have.First), time.Unix(0, have.Last)}, have.fault(run, n)
		}
	}
}

// arrivals returns the arrival times of a run's messages, by id.
func (r *receiver) arrivals(ctx context.Context, run string) (map[string]time.Time, error) {
	have, err := r.ask(ctx, question{Run: run, Arrivals: true})
	at := make(map[string]time.Time, len(have.Arrivals))
	for id, nanos := range have.Arrivals {
		at[id] = time.Unix(0, nanos)
	}
	return at, err
}

// forget removes a run from the receiver, because its messages use memory.
func (r *receiver) forget(ctx context.Context, run string) error {
	_, err := r.ask(ctx, question{Run: run, Forget: true})
	return err
}

// ask sends a query about a run to the receiver.
func (r *receiver) ask(ctx context.Context, q question) (have received, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask the receiver of %s: %w", q.Run, err)
		}
	}()
	text, err := json.Marshal(q)
	if err != nil {
		return have, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.control, bytes.NewReader(text))
	if err != nil {
		return have, err
	}
	res, err := r.http.Do(req)
	if err != nil {
		return have, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return have, errors.New(res.Status)
	}
	return have, json.NewDecoder(res.Body).Decode(&have)
}
