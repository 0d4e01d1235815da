package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
)

// Task is a message to a queue. Its fields are those of POST /v1/messages in the API.
type Task struct {
	ID      string // recognizes a repeat; empty: msg_ and a ULID
	Queue   string // the queue whose handler is called; always needed
	Topic   string // what it is about: words separated by dots; always needed
	Tenant  string // on whose behalf; may be empty
	Subject string // your own reference, such as an order number, for search; may be empty

	Body        any    // encoded as JSON, so nil is null; a json.RawMessage is sent byte for byte
	Raw         []byte // in place of Body, sent byte for byte; nil: Body is used
	ContentType string // empty: application/json for Body, application/octet-stream for Raw

	Delay       time.Duration // before the first attempt, at most a year
	DeliverAt   time.Time     // time of the first attempt, in place of Delay
	ExpiresAt   time.Time     // no attempt begins after it; zero: none
	OrderingKey string        // tasks of one key and queue are handled in order, one at a time; empty: none

	Headers     map[string]string // for the handler, at most 20
	Ladder      []time.Duration   // the waits between attempts; nil: from Options; empty: one attempt
	MaxAttempts int               // limits the ladder; 0: no limit
	Timeout     time.Duration     // of one call of the handler, 1 s to 1 h; 0: from Options
}

// Callback is a message that is sent over HTTP: to a URL, to an endpoint, or without both to
// every endpoint of its tenant with a matching topic. Only a hookladder serve of the project
// sends it. The fields that Task has too mean the same.
type Callback struct {
	ID       string
	URL      string // the URL that is called
	Endpoint string // the id or uid of the endpoint that is called
	Topic    string // always needed
	Tenant   string
	Subject  string

	// AllowUnmatched accepts that no endpoint matches the tenant and the topic. Nothing is
	// stored then, and no error is returned.
	AllowUnmatched bool

	Body        any
	Raw         []byte
	ContentType string

	Delay       time.Duration
	DeliverAt   time.Time
	ExpiresAt   time.Time
	OrderingKey string

	Headers     map[string]string // more headers for the receiver, at most 20
	Ladder      []time.Duration
	MaxAttempts int
	Timeout     time.Duration // of one attempt, 1 s to 60 s; 0: the default of serve
	Success     *success.Rule // which responses are a success; nil: the default of serve
}

// Published is the result of Publish and Send.
type Published struct {
	ID         string
	CreatedAt  time.Time // by the clock of Redis; of a duplicate, of the first message
	Duplicate  bool      // a message with the same id and content exists already
	Deliveries []Placed  // one of a task; of a callback one for each destination
}

// Placed is one delivery of a published message.
type Placed struct {
	ID            string // <destination>:<message id>, the argument of hookladder why
	Destination   string
	Status        dispatcher.Status
	NextAttemptAt time.Time // zero: it waits for others of its ordering key, or it has ended
}

// The errors of Publish, Send and Cancel, for errors.Is.
var (
	// ErrInvalid is matched by every *InvalidError.
	ErrInvalid = errors.New("invalid message")
	// ErrConflict means that another message has the id. Nothing was changed.
	ErrConflict = errors.New("the id is taken by another message")
	// ErrLaneFull means that Options.MaxWaiting deliveries wait in the lane.
	ErrLaneFull = errors.New("its lane is full")
	// ErrUnmatched means that no endpoint matches a callback, so nobody would get it.
	// Nothing was stored. Callback.AllowUnmatched accepts that.
	ErrUnmatched = errors.New("it has no URL and no Endpoint, and no endpoint of its tenant has a topic that matches")
	// ErrUnavailable means that Redis did not respond. The message may be stored. It is
	// safe to publish it again with the same ID.
	ErrUnavailable = dispatcher.ErrUnavailable
	// ErrFull means that Redis has no memory left. Nothing was changed.
	ErrFull = dispatcher.ErrFull
	// ErrNotFound means that there is no such message.
	ErrNotFound = dispatcher.ErrNotFound
)

// FieldError is the mistake in one field, which is named by its path in the API: $.topic.
type FieldError = dispatcher.FieldError

// InvalidError has all mistakes in a message. The message was not published.
type InvalidError struct {
	Fields []FieldError
}

// Error names each field with its mistake.
func (e *InvalidError) Error() string {
	var b strings.Builder
	b.WriteString(ErrInvalid.Error())
	for i, f := range e.Fields {
		b.WriteString([]string{": ", "; "}[min(i, 1)] + f.Path + " " + f.Detail)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Publish stores a task. After it has returned without an error, the task ends delivered,
// dead or cancelled, whatever process dies. If ctx ends first, the task may be stored. The
// span of ctx, if there is one, is kept with it.
func (q *Queue) Publish(ctx context.Context, t Task) (Published, error) {
	m := message{Callback: Callback{
		ID: t.ID, Topic: t.Topic, Tenant: t.Tenant, Subject: t.Subject, Body: t.Body, Raw: t.Raw, ContentType: t.ContentType,
		Delay: t.Delay, DeliverAt: t.DeliverAt, ExpiresAt: t.ExpiresAt, OrderingKey: t.OrderingKey, Headers: t.Headers,
		Ladder: t.Ladder, MaxAttempts: t.MaxAttempts, Timeout: t.Timeout,
	}, queue: t.Queue, task: true}
	return q.publish(ctx, "publish", &m)
}

// Send stores a callback, which a hookladder serve of the project sends. It promises the
// same as Publish. It returns ErrUnmatched if the callback names no destination and no
// endpoint matches it.
func (q *Queue) Send(ctx context.Context, c Callback) (Published, error) {
	return q.publish(ctx, "send", &message{Callback: c})
}

// message is a task or a callback.
type message struct {
	Callback
	queue string
	task  bool
}

func (q *Queue) publish(ctx context.Context, verb string, m *message) (Published, error) {
	if q == nil || q.engine == nil {
		return Published{}, fmt.Errorf("%s: %w", verb, errUnopened)
	}
	q.mu.Lock()
	closed := q.closed
	q.mu.Unlock()
	if closed {
		return Published{}, fmt.Errorf("%s: %w", verb, ErrClosed)
	}
	inner, wrong := m.inner()
	if wrong = append(wrong, inner.Validate(q.policy)...); len(wrong) > 0 {
		return Published{}, fmt.Errorf("%s %s: %w", verb, inner.ID, &InvalidError{Fields: wrong})
	}
	ctx, span := q.trace(ctx, inner)
	results, err := q.engine.Publish(ctx, []*dispatcher.Message{inner})
	endPublish(span, results, err)
	if err != nil {
		return Published{}, fmt.Errorf("%s %s: %w", verb, inner.ID, err)
	}
	r := &results[0]
	switch {
	case errors.Is(r.Err, dispatcher.ErrNoEndpoint), errors.Is(r.Err, dispatcher.ErrTenant):
		fault := FieldError{Path: "$.endpoint", Detail: "there is no such endpoint of the message's tenant"}
		err = &InvalidError{Fields: []FieldError{fault}}
	case errors.Is(r.Err, dispatcher.ErrUnmatched):
		err = ErrUnmatched
	case r.Err != nil:
		return Published{}, r.Err
	case r.Result == dispatcher.LaneFull:
		err = ErrLaneFull
	case r.Result == dispatcher.Conflict && len(r.Differs) > 0:
		err = fmt.Errorf("%w: %s not as in the first", ErrConflict, strings.Join(r.Differs, ", "))
	case r.Result == dispatcher.Conflict:
		err = ErrConflict
	}
	if err != nil {
		return Published{}, fmt.Errorf("%s %s: %w", verb, inner.ID, err)
	}
	return published(inner.ID, r), nil
}

func published(id string, r *dispatcher.Published) Published {
	p := Published{ID: id, CreatedAt: r.CreatedAt, Duplicate: r.Result == dispatcher.Duplicate}
	for i := range r.Deliveries {
		d := &r.Deliveries[i]
		p.Deliveries = append(p.Deliveries, Placed{
			ID: d.ID.String(), Destination: string(d.ID.Lane), Status: d.Status, NextAttemptAt: d.Due,
		})
	}
	return p
}

// Cancel cancels all unfinished deliveries of a message: no new attempt begins. A running
// handler continues, and its success counts. It returns ErrNotFound if there is no such
// message.
func (q *Queue) Cancel(ctx context.Context, id string) error {
	if q == nil || q.engine == nil {
		return fmt.Errorf("cancel %s: %w", id, errUnopened)
	}
	if _, err := q.engine.Cancel(ctx, id, ""); err != nil {
		return fmt.Errorf("cancel %s: %w", id, err)
	}
	return nil
}

// inner converts the message for the engine, and returns the mistakes that the engine
// can't see.
func (m *message) inner() (*dispatcher.Message, []FieldError) {
	var wrong []FieldError
	fault := func(path, detail string) { wrong = append(wrong, FieldError{Path: path, Detail: detail}) }
	out := &dispatcher.Message{
		ID: m.ID, Topic: m.Topic, Tenant: m.Tenant, Subject: m.Subject, Queue: m.queue, URL: m.URL, Endpoint: m.Endpoint,
		ContentType: m.ContentType, Delay: m.Delay, DeliverAt: m.DeliverAt.Truncate(time.Millisecond), ExpiresAt: m.ExpiresAt.Truncate(time.Millisecond),
		OrderingKey: m.OrderingKey, MaxAttempts: m.MaxAttempts, Timeout: m.Timeout, RequireMatch: !m.AllowUnmatched, Success: m.Success,
	}
	if out.ID == "" {
		out.ID = dispatcher.NewID()
	}
	if m.task && m.queue == "" {
		fault("$.queue", "is needed: Send is for callbacks to a URL or to endpoints")
	}
	if m.Raw != nil && m.Body != nil {
		fault("$.body", "give Body or Raw, not both")
	}
	var err error
	if out.Body, err = m.body(); err != nil {
		fault("$.body", err.Error())
	}
	switch {
	case m.ContentType != "":
	case m.Raw != nil:
		out.ContentType = "application/octet-stream"
	default:
		out.ContentType = "application/json"
	}
	if m.Ladder != nil {
		steps, err := ladder.New(m.Ladder...)
		if err != nil {
			fault("$.ladder", err.Error())
		}
		out.Ladder = &steps
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		out.Headers = append(out.Headers, dispatcher.Header{Name: name, Value: m.Headers[name]})
	}
	return out, wrong
}

// body returns the encoded body. It is a copy, so the caller may reuse its own.
func (m *message) body() ([]byte, error) {
	if m.Raw != nil {
		return bytes.Clone(m.Raw), nil
	}
	switch b := m.Body.(type) {
	case []byte:
		return nil, errors.New("is bytes, which JSON has no form for: give Raw, or a json.RawMessage")
	case json.RawMessage:
		if !jsontext.Value(b).IsValid() {
			return nil, errors.New("is not JSON")
		}
		return bytes.Clone(b), nil
	}
	text, err := json.Marshal(m.Body)
	if err != nil {
		return nil, fmt.Errorf("can't be written as JSON: %w", err)
	}
	return text, nil
}
