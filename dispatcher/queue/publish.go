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
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/ladder"
)

// Task is a message to a queue. Its fields are those of POST /v1/messages in the API.
type Task struct {
	ID      string // recognizes a repeat; empty: msg_ and a ULID
	Queue   string // the queue whose handler is called; always needed
	Topic   string // what it is about: words separated by dots; always needed
	Tenant  string // on whose behalf; may be empty
	Subject string // your own reference, such as an order number, for search; may be empty

	// UniqueFor publishes at most one task with the ID in each span of this duration. The spans
	// begin where time.Time.Truncate sets a time in UTC: 24 h is a day, an hour a full hour. So two
	// tasks may be close to each other, one at the end of a span, one at the start of the next. The ID
	// of the message, in Published, ends with the span. At most Options.Retention; 0: the ID is taken
	// for good.
	UniqueFor time.Duration

	Body        any    // encoded as JSON, so nil is null; a json.RawMessage is sent byte for byte
	Raw         []byte // in place of Body, sent byte for byte; nil: Body is used
	ContentType string // empty: application/json for Body, application/octet-stream for Raw

	Delay       time.Duration // before the first attempt, at most a year
	DeliverAt   time.Time     // time of the first attempt, in place of Delay
	ExpiresAt   time.Time     // no attempt begins after it; zero: none
	OrderingKey string        // tasks of one key and queue are handled in order, one at a time; empty: none

	Headers     map[string]string // for the handler, at most 20
	Ladder      []time.Duration   // the waits between attempts; none: from Options
	MaxAttempts int               // limits the ladder; 1: no retry; 0: no limit
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

// Publish stores a task. After it has returned without an error, the task ends delivered,
// dead or cancelled, whatever process dies. If ctx ends first, the task may be stored. The
// span of ctx, if there is one, is kept with it.
func (q *Queue) Publish(ctx context.Context, t Task) (Published, error) {
	return q.publish(ctx, "publish", t.message())
}

// message returns the task as the engine's message.
func (t *Task) message() *message {
	return &message{Callback: Callback{
		ID: t.ID, Topic: t.Topic, Tenant: t.Tenant, Subject: t.Subject, Body: t.Body, Raw: t.Raw, ContentType: t.ContentType,
		Delay: t.Delay, DeliverAt: t.DeliverAt, ExpiresAt: t.ExpiresAt, OrderingKey: t.OrderingKey, Headers: t.Headers,
		Ladder: t.Ladder, MaxAttempts: t.MaxAttempts, Timeout: t.Timeout,
	}, queue: t.Queue, task: true, uniqueFor: t.UniqueFor}
}

// Send stores a callback, which a hookladder serve of the project sends. It promises the
// same as Publish. It returns ErrUnmatched if the callback names no destination and no
// endpoint matches it.
func (q *Queue) Send(ctx context.Context, c Callback) (Published, error) {
	return q.publish(ctx, "send", &message{Callback: c})
}

// Result is the result of one task of PublishBatch.
type Result struct {
	Published
	Err error // nil: the task is stored; else as Publish returns it
}

// batchMost bounds the tasks of one PublishBatch.
const batchMost = 1000

// PublishBatch stores up to 1,000 tasks in one round trip to Redis, each for itself: it returns a
// Result for each, in their order. After an error instead of results, or an ErrUnavailable in a Result,
// a task may be stored. It is safe to publish it again with the same ID.
func (q *Queue) PublishBatch(ctx context.Context, tasks []Task) ([]Result, error) {
	if err := q.usable(ctx, "publish"); err != nil {
		return nil, err
	}
	if len(tasks) > batchMost {
		return nil, fmt.Errorf("publish: %w", &InvalidError{Fields: []FieldError{{Field: "tasks", Detail: fmt.Sprintf("are %d, at most %d are taken", len(tasks), batchMost)}}})
	}
	results := make([]Result, len(tasks))
	var batch []*dispatcher.Message
	var at []int // index of each message of the batch
	var spans []trace.Span
	for i := range tasks {
		inner, err := q.checked("publish", tasks[i].message())
		if results[i].Err = err; err != nil {
			continue
		}
		_, span := q.trace(ctx, inner)
		batch, at, spans = append(batch, inner), append(at, i), append(spans, span)
	}
	if len(batch) == 0 {
		return results, nil
	}
	stored, err := q.engine.Publish(ctx, batch)
	for k, i := range at {
		if err != nil {
			endPublish(spans[k], nil, err)
			continue
		}
		endPublish(spans[k], &stored[k], nil)
		results[i].Published, results[i].Err = q.published(ctx, "publish "+batch[k].ID, batch[k].ID, &stored[k])
	}
	if err != nil {
		return nil, q.failed(ctx, "publish", err)
	}
	return results, nil
}

// message is a task or a callback.
type message struct {
	Callback
	queue     string
	task      bool
	uniqueFor time.Duration
}

// checked returns the message for the engine, or its mistakes.
func (q *Queue) checked(verb string, m *message) (*dispatcher.Message, error) {
	inner, wrong := m.inner()
	if m.uniqueFor != 0 {
		inner.ID = q.unique(m, wrong)
	}
	wrong.ofMessage(inner.Validate(q.policy))
	for i := range wrong.Fields {
		if f := &wrong.Fields[i]; f.Field == "Body" && m.Raw != nil && m.Body == nil {
			f.Field = "Raw"
		}
	}
	if len(wrong.Fields) > 0 {
		if dispatcher.ValidID(m.ID) { // a made one says nothing to the caller
			verb += " " + m.ID
		}
		return nil, fmt.Errorf("%s: %w", verb, wrong)
	}
	return inner, nil
}

// maxID is the longest id of a message.
const maxID = 128

// unique returns the id of the message in the present span of its UniqueFor. An id is known for
// Options.Retention, so a longer span could have two tasks.
func (q *Queue) unique(m *message, wrong *InvalidError) string {
	switch {
	case m.ID == "":
		wrong.add("UniqueFor", "needs an ID")
		return dispatcher.NewID()
	case m.uniqueFor < time.Second || m.uniqueFor > q.retain:
		wrong.add("UniqueFor", fmt.Sprintf("must be 1s to %s, as long as an id is known (Options.Retention)", ladder.FormatDuration(q.retain)))
		return m.ID
	}
	id := fmt.Sprintf("%s_%d", m.ID, q.engine.Now().Truncate(m.uniqueFor).UnixMilli())
	if over := len(id) - maxID; over > 0 && dispatcher.ValidID(m.ID) {
		wrong.add("ID", fmt.Sprintf("must be at most %d characters, because UniqueFor adds the span", len(m.ID)-over))
		return m.ID
	}
	return id
}

func (q *Queue) publish(ctx context.Context, verb string, m *message) (Published, error) {
	if err := q.usable(ctx, verb); err != nil {
		return Published{}, err
	}
	inner, err := q.checked(verb, m)
	if err != nil {
		return Published{}, err
	}
	ctx, span := q.trace(ctx, inner)
	results, err := q.engine.Publish(ctx, []*dispatcher.Message{inner})
	if err != nil {
		endPublish(span, nil, err)
		return Published{}, q.failed(ctx, verb+" "+inner.ID, err)
	}
	endPublish(span, &results[0], nil)
	return q.published(ctx, verb+" "+inner.ID, inner.ID, &results[0])
}

// published returns the result of one message.
func (q *Queue) published(ctx context.Context, verb, id string, r *dispatcher.Published) (Published, error) {
	var err error
	switch {
	case errors.Is(r.Err, dispatcher.ErrNoEndpoint), errors.Is(r.Err, dispatcher.ErrTenant):
		err = &InvalidError{Fields: []FieldError{{Field: "Endpoint", Detail: "is not the id or the uid of an endpoint of this Tenant"}}}
	case errors.Is(r.Err, dispatcher.ErrUnmatched):
		err = ErrUnmatched
	case r.Err != nil:
		return Published{}, q.failed(ctx, verb, r.Err)
	case r.Result == dispatcher.LaneFull:
		err = ErrLaneFull
	case r.Result == dispatcher.Conflict && len(r.Differs) > 0:
		err = fmt.Errorf("%w: %s not as in the first", ErrConflict, differing(r.Differs))
	case r.Result == dispatcher.Conflict:
		err = ErrConflict
	}
	if err != nil {
		return Published{}, fmt.Errorf("%s: %w", verb, err)
	}
	p := Published{ID: id, CreatedAt: r.CreatedAt, Duplicate: r.Result == dispatcher.Duplicate}
	for i := range r.Deliveries {
		d := &r.Deliveries[i]
		p.Deliveries = append(p.Deliveries, Placed{
			ID: d.ID.String(), Destination: string(d.ID.Lane), Status: d.Status, NextAttemptAt: d.Due,
		})
	}
	return p, nil
}

// Cancel cancels all unfinished deliveries of a message: no new attempt begins. A running
// handler continues, and its success counts. It returns ErrNotFound if there is no such
// message.
func (q *Queue) Cancel(ctx context.Context, id string) error {
	if err := q.usable(ctx, "cancel"); err != nil {
		return err
	}
	wrong := &InvalidError{}
	if wrong.checkID(id); len(wrong.Fields) > 0 {
		return fmt.Errorf("cancel: %w", wrong)
	}
	if _, err := q.engine.Cancel(ctx, id, ""); err != nil {
		return q.failed(ctx, "cancel "+id, err)
	}
	return nil
}

// Reschedule moves the next attempt of a message that waits to another time, sooner or later. A
// program that publishes on each change and moves the first one debounces: the handler runs once
// nothing has changed for a while. It returns ErrBegun if a delivery of the message is handled now, has
// ended, or was asked for by a person, and ErrNotFound if there is no such message. A time in the past means now, and the content
// stays as it was published. Deliveries that wait behind others of their ordering key, and times after
// ExpiresAt, are an *InvalidError.
func (q *Queue) Reschedule(ctx context.Context, id string, at time.Time) error {
	if err := q.usable(ctx, "reschedule"); err != nil {
		return err
	}
	wrong := &InvalidError{}
	wrong.checkID(id)
	if at.IsZero() || at.Sub(q.engine.Now()) > ladder.MaxDuration {
		wrong.add("at", "must be a time of at most a year ahead")
	}
	if len(wrong.Fields) > 0 {
		return fmt.Errorf("reschedule: %w", wrong)
	}
	changes, err := q.engine.Reschedule(ctx, id, at)
	for _, c := range changes {
		switch {
		case err != nil || c.Changed:
		case errors.Is(c.Err, dispatcher.ErrExpired):
			err = &InvalidError{Fields: []FieldError{{Field: "at", Detail: "is not before its ExpiresAt"}}}
		case errors.Is(c.Err, dispatcher.ErrOrder):
			err = &InvalidError{Fields: []FieldError{{Field: "id", Detail: "waits behind others of its OrderingKey"}}}
		case c.Err == nil:
			err = ErrBegun
		default:
			err = c.Err
		}
	}
	if err != nil {
		return q.failed(ctx, "reschedule "+id, err)
	}
	return nil
}

// differing names the parts in which a message differs from the first one with its id.
func differing(parts []string) string {
	names := make([]string, len(parts))
	for i, part := range parts {
		if names[i] = fields[part]; names[i] == "" {
			names[i] = part // the destination, which may be of another kind
		}
	}
	return strings.Join(names, ", ")
}

// inner converts the message for the engine, and returns the mistakes that the engine
// can't see.
func (m *message) inner() (*dispatcher.Message, *InvalidError) {
	wrong := &InvalidError{}
	out := &dispatcher.Message{
		ID: m.ID, Topic: m.Topic, Tenant: m.Tenant, Subject: m.Subject, Queue: m.queue, URL: m.URL, Endpoint: m.Endpoint,
		ContentType: m.ContentType, Delay: m.Delay, DeliverAt: m.DeliverAt.Truncate(time.Millisecond), ExpiresAt: m.ExpiresAt.Truncate(time.Millisecond),
		OrderingKey: m.OrderingKey, MaxAttempts: m.MaxAttempts, Timeout: m.Timeout, RequireMatch: !m.AllowUnmatched, Success: m.Success,
	}
	if out.ID == "" {
		out.ID = dispatcher.NewID()
	}
	if m.task && m.queue == "" {
		wrong.add("Queue", "is needed: Send is for webhooks to a URL or to endpoints")
	}
	if m.Raw != nil && m.Body != nil {
		wrong.add("Body", "and Raw can't both be given")
	}
	var err error
	out.Body, err = m.body()
	wrong.check("Body", err)
	switch {
	case m.ContentType != "":
	case m.Raw != nil:
		out.ContentType = "application/octet-stream"
	default:
		out.ContentType = "application/json"
	}
	if len(m.Ladder) > 0 {
		steps, err := newLadder(m.Ladder)
		wrong.check("Ladder", err)
		out.Ladder = &steps
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		out.Headers = append(out.Headers, dispatcher.Header{Name: name, Value: m.Headers[name]})
	}
	return out, wrong
}

// newLadder returns the ladder of these waits.
func newLadder(waits []time.Duration) (ladder.Ladder, error) {
	l, err := ladder.New(waits...)
	var wrong *ladder.Error
	switch {
	case errors.As(err, &wrong) && wrong.Rung > 0:
		err = fmt.Errorf("must have waits of 0 to %s: rung %d is %s", ladder.FormatDuration(ladder.MaxDuration), wrong.Rung, wrong.Text)
	case err != nil:
		err = fmt.Errorf("must have at most %d waits", ladder.MaxRungs)
	}
	return l, err
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
