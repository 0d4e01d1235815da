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

// Message is a message to publish. Its fields are the same as in POST /v1/messages of the
// API. At most one of Queue, URL and Endpoint may be set. Without them it goes to every
// endpoint of its tenant with a matching topic. Only a hookladder serve of the project
// makes callbacks to URLs and endpoints.
type Message struct {
	ID      string // recognizes a repeat; empty: msg_ and a ULID
	Topic   string // words separated by dots
	Tenant  string // may be empty
	Subject string // your own reference, such as an order number, for search; may be empty

	Queue    string // the queue whose handler is called
	URL      string // the URL that is called
	Endpoint string // the id or uid of the endpoint that is called

	Body        any    // encoded as JSON; a json.RawMessage is sent byte for byte
	Raw         []byte // in place of Body, sent byte for byte; nil: Body is used
	ContentType string // empty: application/json for Body, application/octet-stream for Raw

	Delay       time.Duration // before the first attempt, at most a year
	DeliverAt   time.Time     // time of the first attempt, in place of Delay
	ExpiresAt   time.Time     // no attempt begins after it; zero: none
	OrderingKey string        // deliveries of one key and destination are handled in order, one at a time; empty: none

	Headers      map[string]string // more headers for the receiver, at most 20
	Ladder       []time.Duration   // the waits between attempts; nil: from Options; empty: one attempt
	MaxAttempts  int               // limits the ladder; 0: no limit
	Timeout      time.Duration     // of one attempt: a handler 1 s to 1 h, a callback up to 60 s; 0: the default
	RequireMatch bool              // return ErrUnmatched if no endpoint matches
	Success      *success.Rule     // which responses to a callback are a success; nil: the default
}

// Published is the result of Publish.
type Published struct {
	ID         string
	CreatedAt  time.Time // by the clock of Redis; of a duplicate, of the first message
	Duplicate  bool      // a message with the same id and content exists already
	Deliveries []Placed  // one for each destination; none: no endpoint matches
}

// Placed is one delivery of a published message.
type Placed struct {
	ID            string // <destination>:<message id>, the argument of hookladder why
	Destination   string
	Status        dispatcher.Status
	NextAttemptAt time.Time // zero: it waits for others of its ordering key, or it has ended
}

// The errors of Publish and Cancel, for errors.Is.
var (
	// ErrInvalid is matched by every *InvalidError.
	ErrInvalid = errors.New("invalid message")
	// ErrConflict means that another message has the id. Nothing was changed.
	ErrConflict = errors.New("the id is taken by another message")
	// ErrLaneFull means that Options.MaxWaiting deliveries wait in the lane.
	ErrLaneFull = errors.New("its lane is full")
	// ErrUnmatched means that no endpoint matches, although one is required.
	ErrUnmatched = dispatcher.ErrUnmatched
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

// Publish stores a message. After it has returned without an error, the message ends
// delivered, dead or cancelled, whatever process dies. If ctx ends first, the message may
// be stored. The span of ctx, if there is one, is kept with the message.
func (q *Queue) Publish(ctx context.Context, m Message) (Published, error) {
	if q == nil || q.engine == nil {
		return Published{}, fmt.Errorf("publish: %w", errUnopened)
	}
	q.mu.Lock()
	closed := q.closed
	q.mu.Unlock()
	if closed {
		return Published{}, fmt.Errorf("publish: %w", ErrClosed)
	}
	inner, wrong := m.inner()
	if wrong = append(wrong, inner.Validate(q.policy)...); len(wrong) > 0 {
		return Published{}, fmt.Errorf("publish %s: %w", inner.ID, &InvalidError{Fields: wrong})
	}
	ctx, span := q.trace(ctx, inner)
	results, err := q.engine.Publish(ctx, []*dispatcher.Message{inner})
	endPublish(span, results, err)
	if err != nil {
		return Published{}, fmt.Errorf("publish %s: %w", inner.ID, err)
	}
	r := &results[0]
	switch {
	case errors.Is(r.Err, dispatcher.ErrNoEndpoint), errors.Is(r.Err, dispatcher.ErrTenant):
		fault := FieldError{Path: "$.endpoint", Detail: "there is no such endpoint of the message's tenant"}
		return Published{}, fmt.Errorf("publish %s: %w", inner.ID, &InvalidError{Fields: []FieldError{fault}})
	case r.Err != nil:
		return Published{}, r.Err
	case r.Result == dispatcher.LaneFull:
		return Published{}, fmt.Errorf("publish %s: %w", inner.ID, ErrLaneFull)
	case r.Result == dispatcher.Conflict && len(r.Differs) > 0:
		return Published{}, fmt.Errorf("publish %s: %w: %s not as in the first", inner.ID, ErrConflict, strings.Join(r.Differs, ", "))
	case r.Result == dispatcher.Conflict:
		return Published{}, fmt.Errorf("publish %s: %w", inner.ID, ErrConflict)
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
func (m *Message) inner() (*dispatcher.Message, []FieldError) {
	var wrong []FieldError
	fault := func(path, detail string) { wrong = append(wrong, FieldError{Path: path, Detail: detail}) }
	out := &dispatcher.Message{
		ID: m.ID, Topic: m.Topic, Tenant: m.Tenant, Subject: m.Subject, Queue: m.Queue, URL: m.URL, Endpoint: m.Endpoint,
		ContentType: m.ContentType, Delay: m.Delay, DeliverAt: m.DeliverAt.Truncate(time.Millisecond), ExpiresAt: m.ExpiresAt.Truncate(time.Millisecond),
		OrderingKey: m.OrderingKey, MaxAttempts: m.MaxAttempts, Timeout: m.Timeout, RequireMatch: m.RequireMatch, Success: m.Success,
	}
	if out.ID == "" {
		out.ID = dispatcher.NewID()
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
func (m *Message) body() ([]byte, error) {
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
