package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/oklog/ulid/v2"
)

// TestTopic is the topic of a message that only tries an endpoint.
const TestTopic = ownTopics + "test"

// ownTopics begins the topics of messages that Hookladder itself publishes. No
// caller may use one: a receiver takes them for ours.
const ownTopics = "hookladder."

// mostTests is how many such messages may be on their way at once: they take
// no permit, since a person waits for each.
const mostTests = 8

// ErrBusy says that too many tests are under way.
var ErrBusy = errors.New("too many tests are under way")

// TestEndpoint sends a message to an endpoint at once, whatever its state and
// what waits for it, and answers what the receiver said. Nothing of it is kept.
func (d *Dispatcher) TestEndpoint(ctx context.Context, name string) (TestResult, error) {
	e, err := d.stored(ctx, name)
	if err != nil {
		return TestResult{}, err
	}
	select {
	case d.tests <- struct{}{}:
		defer func() { <-d.tests }()
	default:
		return TestResult{}, fmt.Errorf("test endpoint %s: %w", e.ID, ErrBusy)
	}
	dest := newDestination(e)
	if dest.fault != nil {
		return TestResult{}, fmt.Errorf("test endpoint %s: %w", e.ID, dest.fault)
	}
	if e.Success.Check() != nil {
		return TestResult{}, fmt.Errorf("test endpoint %s: %w", e.ID, errSuccess)
	}
	at := d.engine.view.clock.now()
	m, err := testMessage(e, at)
	if err != nil {
		return TestResult{}, fmt.Errorf("test endpoint %s: %w", e.ID, err)
	}
	return TestResult{MessageID: m.ID, Attempt: d.deliverer.try(ctx, dest, m, at)}, nil
}

func testMessage(e *Endpoint, at time.Time) (*Message, error) {
	body, err := json.Marshal(struct {
		Type      string    `json:"type"`
		Endpoint  string    `json:"endpoint"`
		Timestamp time.Time `json:"timestamp"`
	}{TestTopic, e.ID, at.UTC().Truncate(time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return &Message{
		ID: "msg_" + ulid.Make().String(), Topic: TestTopic, Tenant: e.Tenant, Endpoint: e.ID,
		Body: body, ContentType: "application/json", CreatedAt: at,
	}, nil
}

// try makes one attempt outside the queue.
func (d *deliverer) try(ctx context.Context, dest *destination, m *Message, at time.Time) Attempt {
	c := Claimed{ID: DeliveryID{Lane: dest.endpoint.Lane(), Message: m.ID}, Message: m, Attempt: 1, Rung: 1}
	r := d.defaults(m, dest.endpoint)
	r.url, r.headers, r.signer = dest.url, dest.headers, dest.signer(at)
	for _, h := range dest.headers {
		r.secrets = append(r.secrets, h.Value)
	}
	header := d.headers(c, at, &r)
	call, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	answer := d.sender.Send(call, Call{URL: r.url, Header: header, Body: m.Body, Lane: c.ID.Lane})
	var s Settlement
	d.judge(c, r, answer, at, &s)
	s.Attempt.Excerpt = Excerpt(answer.Body, d.excerpt, r.secrets)
	return s.Attempt
}

// disableGone disables an endpoint whose receiver answered 410 when it was
// called as it was then. Where that can't be done now the next message does it.
// Many that are told so at once are one change.
func (d *Dispatcher) disableGone(called *Endpoint) {
	if now := d.engine.cache.cached(called.Lane()); now != nil && !says(called, now) {
		return
	}
	flight := called.ID + " " + strconv.FormatInt(called.Version, 10)
	_, _, _ = d.goneCalls.Do(flight, func() (any, error) {
		ctx, cancel := within(context.Background())
		defer cancel()
		_, err := d.changeEndpoint(ctx, called.ID, func(e *Endpoint) error {
			if !says(called, e) {
				return errAlready
			}
			e.Disabled, e.Gone = true, true
			return nil
		}, false)
		lane := slog.String("lane", called.ID)
		switch {
		case err == nil, errors.Is(err, errAlready), errors.Is(err, ErrNoEndpoint):
		default:
			d.engine.log.LogAttrs(ctx, slog.LevelError, "endpoint not disabled", lane, slog.Any("err", err))
		}
		return nil, nil
	})
}

// says reports whether what the receiver answered to called is a reason to
// disable the endpoint as it is now: it has the same URL still, and neither that
// nor a resume came since.
func says(called, now *Endpoint) bool {
	return !now.Disabled && now.URL == called.URL && called.Version >= now.Since
}

var errAlready = errors.New("it is so already, or was corrected meanwhile")
