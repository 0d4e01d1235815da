package bench

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

// expectMost is how long a receiver may get nothing new before the rest counts
// as lost: longer than an attempt that got no answer takes until its next rung.
const expectMost = 3 * time.Minute

// waitMost bounds one question for what has come, so that it is seen whether
// anything new does.
const waitMost = 5 * time.Second

// receiver is the process that all messages go to, as seen from here. It checks
// signature and body of each.
type receiver struct {
	process *kit.Process
	urls    []string
	control string // its URL for what follows
	http    *http.Client
}

// runOptions say how a run's messages are received. The zero value answers at
// once and remembers no times.
type runOptions struct {
	Delay time.Duration `json:"delay"` // before the answer
	Times bool          `json:"times"` // keep when each came
}

// came is when a run's messages did.
type came struct{ first, last time.Time }

// receiver starts the receiver, or answers the one there is.
func (l *lab) receiver(ctx context.Context) (*receiver, error) {
	if l.sink != nil {
		return l.sink, nil
	}
	environ := append(l.environ(), "SIGNING_SECRET="+l.secret.Reveal())
	p, err := l.start(ctx, kit.Command{Name: "hookladder bench receiver", Path: l.o.Self, Args: []string{"bench", "receiver"}, Env: environ})
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
		return nil, fmt.Errorf("hookladder bench receiver does not tell where it listens: %s", line)
	}
	p.Guard(l.fault)
	l.sink = &receiver{process: p, control: "http://" + open.Control, http: &http.Client{}}
	for _, addr := range open.Destinations {
		l.sink.urls = append(l.sink.urls, "http://"+addr)
	}
	return l.sink, nil
}

// url is that of a destination, without a path: 0, or one of the many from 1 to 100.
func (r *receiver) url(i int) string { return r.urls[i] }

// cpu is what it has used so far, in microseconds.
func (r *receiver) cpu() (micros float64, known bool) { return kit.CPU(r.process.Pid()) }

// begin says how a run's messages are to be received. It is for before the first.
func (r *receiver) begin(ctx context.Context, run string, o runOptions) error {
	_, err := r.ask(ctx, question{Run: run, Begin: &o})
	return err
}

// expect waits until n messages of a run have come. It fails if one is lost,
// comes twice, or is not as it should be.
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

// arrivals are when the messages of a run came, by id.
func (r *receiver) arrivals(ctx context.Context, run string) (map[string]time.Time, error) {
	have, err := r.ask(ctx, question{Run: run, Arrivals: true})
	at := make(map[string]time.Time, len(have.Arrivals))
	for id, nanos := range have.Arrivals {
		at[id] = time.Unix(0, nanos)
	}
	return at, err
}

// forget has a run's messages forgotten, for the room they take.
func (r *receiver) forget(ctx context.Context, run string) error {
	_, err := r.ask(ctx, question{Run: run, Forget: true})
	return err
}

// ask asks the receiver about a run.
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
