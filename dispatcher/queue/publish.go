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

// Message is what is published: what the API's POST /v1/messages takes, in Go's types. At
// most one of Queue, URL and Endpoint is set; with none it goes to every endpoint of its
// tenant whose topics match. Callbacks are made by a hookladder serve of the project.
type Message struct {
	ID      string // what makes a repeat the same message; empty: msg_ and a ULID
	Topic   string // what it is about: words with dots between
	Tenant  string // on whose behalf; may be empty
	Subject string // your own reference, such as an order's number, for search; may be empty

	Queue    string // whose handler gets it
	URL      string // that is called back
	Endpoint string // id or uid of the endpoint that is called back

	Body        any    // written as JSON; a json.RawMessage byte for byte
	Raw         []byte // in place of Body: sent byte for byte; nil: there is Body
	ContentType string // empty: application/json for Body, application/octet-stream for Raw

	Delay       time.Duration // until the first attempt, at most a year
	DeliverAt   time.Time     // in place of Delay: when the first attempt is made
	ExpiresAt   time.Time     // not attempted from then on; zero: never
	OrderingKey string        // one at a time and in order among those of one key and destination; empty: none

	Headers      map[string]string // more headers for the receiver, at most 20
	Ladder       []time.Duration   // the waits between attempts; nil: Options'; empty: one attempt
	MaxAttempts  int               // cuts the ladder; 0: does not
	Timeout      time.Duration     // of one attempt: of a handler 1 s to 1 h, of a callback to 60 s; 0: the usual
	RequireMatch bool              // of one for all that match: ErrUnmatched where nothing does
	Success      *success.Rule     // what a callback's receiver must answer; nil: the usual
}

// Published is what became of a message.
type Published struct {
	ID         string
	CreatedAt  time.Time // by Redis' clock; of a duplicate that of the first
	Duplicate  bool      // the same id and content was there already
	Deliveries []Placed  // one for each destination; none: no endpoint matches
}

// Placed is a delivery of a message as it was published.
type Placed struct {
	ID            string // <destination>:<message id>, as hookladder why takes it
	Destination   string
	Status        dispatcher.Status
	NextAttemptAt time.Time // zero: it waits for others of its ordering key, or it ended
}

// What Publish and Cancel may answer. They are to be asked for with errors.Is.
var (
	// ErrInvalid is each *InvalidError.
	ErrInvalid = errors.New("invalid message")
	// ErrConflict says that another message has the id. Nothing was changed.
	ErrConflict = errors.New("the id is taken by another message")
	// ErrLaneFull says that as much waits in its lane as Options.MaxWaiting allows.
	ErrLaneFull = errors.New("its lane is full")
	// ErrUnmatched says that no endpoint matches, and that one is required.
	ErrUnmatched = dispatcher.ErrUnmatched
	// ErrUnavailable says that Redis could not be reached, or did not answer: it may be
	// stored. To publish the same again, with its id, is safe.
	ErrUnavailable = dispatcher.ErrUnavailable
	// ErrFull says that Redis has no memory left. Nothing was changed.
	ErrFull = dispatcher.ErrFull
	// ErrNotFound says that no such message is kept.
	ErrNotFound = dispatcher.ErrNotFound
)

// FieldError says what is wrong with one field, by its path in the API: $.topic.
type FieldError = dispatcher.FieldError

// InvalidError says all that is wrong with a message, which was not published.
type InvalidError struct {
	Fields []FieldError
}

// Error names the fields, and what is wrong with each.
func (e *InvalidError) Error() string {
	var b strings.Builder
	b.WriteString(ErrInvalid.Error())
	for i, f := range e.Fields {
		b.WriteString([]string{": ", "; "}[min(i, 1)] + f.Path + " " + f.Detail)
	}
	return b.String()
}

// Is has errors.Is find ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Publish stores a message. Once it returned, the message ends delivered, dead or cancelled,
// whatever dies. If ctx ends first, it may be stored.
func (q *Queue) Publish(ctx context.Context, m Message) (Published, error) {
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
	results, err := q.engine.Publish(ctx, []*dispatcher.Message{inner})
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

// Cancel ends all deliveries of a message that are not finished: nothing new is attempted. A
// handler that runs goes on; if it succeeds, that counts.
func (q *Queue) Cancel(ctx context.Context, id string) error {
	if _, err := q.engine.Cancel(ctx, id, ""); err != nil {
		return fmt.Errorf("cancel %s: %w", id, err)
	}
	return nil
}

// inner is the message as the engine takes it, and what is wrong with what the engine can't
// see any more.
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

// body is what is sent. It is copied: the caller may go on with its own.
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
