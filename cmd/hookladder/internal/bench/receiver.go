package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("tell the receiver of %s: %w", run, err)
	}
	_, err = r.ask(ctx, "/begin", run, url.Values{"options": {string(text)}})
	return err
}

// expect waits until n messages of a run have come. It fails if one is lost,
// comes twice, or is not as it should be.
func (r *receiver) expect(ctx context.Context, run string, n int) (came, error) {
	var have received
	for progress := time.Now(); ; {
		before := have.Distinct
		text, err := r.ask(ctx, "/wait", run, url.Values{"n": {strconv.Itoa(n)}, "most": {waitMost.String()}})
		if err != nil {
			return came{}, err
		}
		have = received{}
		if err := json.Unmarshal(text, &have); err != nil {
			return came{}, fmt.Errorf("receive %s: %w", run, err)
		}
		if have.Distinct >= n || have.Bad > 0 {
			break
		}
		if have.Distinct > before {
			progress = time.Now()
		}
		if time.Since(progress) > expectMost {
			break
		}
	}
	return came{time.Unix(0, have.First), time.Unix(0, have.Last)}, have.fault(run, n)
}

// arrivals are when the messages of a run came, by id.
func (r *receiver) arrivals(ctx context.Context, run string) (map[string]time.Time, error) {
	text, err := r.ask(ctx, "/arrivals", run, nil)
	if err != nil {
		return nil, err
	}
	at := map[string]time.Time{}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for lines.Scan() {
		id, nanos, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseInt(nanos, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("receive %s: %w", run, err)
		}
		at[id] = time.Unix(0, n)
	}
	return at, nil
}

// forget has a run's messages forgotten, for the room they take.
func (r *receiver) forget(ctx context.Context, run string) error {
	_, err := r.ask(ctx, "/forget", run, nil)
	return err
}

// ask has the receiver do something.
func (r *receiver) ask(ctx context.Context, what, run string, more url.Values) (text []byte, err error) {
	query := url.Values{"run": {run}}
	for name, values := range more {
		query[name] = values
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.control+what+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	res, err := r.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the receiver of %s: %w", run, err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	text, err = io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("ask the receiver of %s: %s: %s", run, res.Status, text)
	}
	return text, err
}
