package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Delivery is the argument of a handler: one message, for one attempt.
type Delivery struct {
	ID          string // <destination>:<message id>
	MessageID   string // the same at each attempt, so your side can recognize a repeat
	Queue       string
	Topic       string
	Tenant      string
	Subject     string
	Attempt     int // from 1
	MaxAttempts int // the number of its last attempt, see Last
	Snoozes     int // how often a handler returned Snooze, since its ladder began
	Body        []byte
	ContentType string
	Headers     map[string]string // the message's own headers; read only
	CreatedAt   time.Time         // when it was published, by the clock of Redis
	ExpiresAt   time.Time         // no attempt begins after it; zero: none
	LastError   string            // of the attempt before; empty: there was none
}

// Last reports whether this is the last attempt: if it fails, the delivery is dead. The ladder of a
// message may be another one than that of the Options, and may change between two attempts.
func (d Delivery) Last() bool { return d.Attempt >= d.MaxAttempts }

// HandlerFunc handles one delivery. If it returns nil, the delivery is delivered. If it
// returns an error or panics, the attempt has failed: the next attempt follows after a
// rung of the ladder, and after the last one the delivery is dead.
//
// ctx ends at the attempt's deadline, and when the program must stop. A handler that
// ignores its deadline keeps its delivery for the same time again. If it returns nil by
// then, the delivery is still delivered.
//
// A handler may be called twice with the same message, because its program may die during
// the call or lose Redis.
type HandlerFunc func(ctx context.Context, d Delivery) error

// Handle registers h for the deliveries of a queue. They are handled once Run runs. Other
// programs may handle the same queue: each delivery goes to one of them. It panics on a
// mistake of the program: a Queue that Open did not make, an invalid name, no handler, a
// second handler for a queue, or a call after Run or Close.
func (q *Queue) Handle(name string, h HandlerFunc, o ...HandleOption) {
	if q == nil || q.engine == nil {
		panic(fmt.Sprintf("queue: Handle(%q): %s", name, ErrUnopened))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !dispatcher.ValidQueue(name):
		panic(fmt.Sprintf("queue: Handle(%q): the name %s", name, queueRule))
	case h == nil:
		panic(fmt.Sprintf("queue: Handle(%q): no handler", name))
	case q.handlers.has(name):
		panic(fmt.Sprintf("queue: Handle(%q): it has a handler already", name))
	case q.running || q.closed:
		panic(fmt.Sprintf("queue: Handle(%q): it comes after Run or Close", name))
	}
	l := &handledLane{lane: dispatcher.QueueLane(name), queue: name, handle: h, most: mostWorkers, pending: true}
	for _, option := range o {
		if option == nil {
			panic(fmt.Sprintf("queue: Handle(%q): a nil option", name))
		}
		option(l)
	}
	if l.most < 1 {
		panic(fmt.Sprintf("queue: Handle(%q): Workers must be 1 or more", name))
	}
	q.handlers.add(l)
}

// HandleOption is an option of one queue with a handler, such as Workers.
type HandleOption func(*handledLane)

// Workers limits how many deliveries of the queue this program handles at once. Options.Workers
// limits all of its queues together, and Options.MaxInFlight one queue in all programs.
func Workers(n int) HandleOption { return func(l *handledLane) { l.most = n } }

// Use adds middleware around the handlers of all queues, such as one that logs, counts or opens a
// transaction. The first one is the outermost. A middleware sees the error of the handler, and may
// return another one. Use panics as Handle does.
func (q *Queue) Use(middleware ...func(HandlerFunc) HandlerFunc) {
	if q == nil || q.engine == nil {
		panic(fmt.Sprintf("queue: Use: %s", ErrUnopened))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running || q.closed {
		panic("queue: Use: it comes after Run or Close")
	}
	for _, m := range middleware {
		if m == nil {
			panic("queue: Use: no middleware")
		}
	}
	q.middleware = append(q.middleware, middleware...)
}

// Handle is the method of Queue with the body decoded from JSON into a T. If the body
// can't be decoded, the delivery is dead at once with the error, because a retry would
// not help.
func Handle[T any](q *Queue, name string, h func(ctx context.Context, body T, d Delivery) error, o ...HandleOption) {
	q.Handle(name, Typed(h), o...)
}

// Typed returns a HandlerFunc that decodes the body from JSON into a T for h. Handle uses it. A
// test may call it without a Queue. It returns nil for nil.
func Typed[T any](h func(ctx context.Context, body T, d Delivery) error) HandlerFunc {
	if h == nil {
		return nil
	}
	return func(ctx context.Context, d Delivery) error {
		var body T
		if err := json.Unmarshal(d.Body, &body); err != nil {
			return SkipRetry(fmt.Errorf("the body can't be read as %T: %w", body, unreadable(err)))
		}
		return h(ctx, body, d)
	}
}

// unreadable returns why a body could not be decoded, without quoting the body.
func unreadable(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		found, _, _ := strings.Cut(kind.Value, " ") // the rest is the number itself
		if kind.Field == "" {
			return fmt.Errorf("a JSON %s is no %s", found, kind.Type)
		}
		return fmt.Errorf("%s: a JSON %s is no %s", kind.Field, found, kind.Type)
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON at byte %d", syntax.Offset)
	}
	return fmt.Errorf("a type that decodes itself refused its value (%T)", err) // such as a time, which would quote it
}

// skipError is an error with a mark for ErrSkipRetry.
type skipError struct{ error }

func (e skipError) Unwrap() error        { return e.error }
func (e skipError) Is(target error) bool { return target == ErrSkipRetry }

// SkipRetry wraps err to say that another attempt makes no sense: the delivery is dead,
// with reason rejected. errors.Is(err, ErrSkipRetry) reports that. It returns nil for nil.
func SkipRetry(err error) error {
	if err == nil {
		return nil
	}
	return skipError{err}
}

// RetryError is the error of a handler that sets the wait before the next attempt.
type RetryError struct {
	After time.Duration // from 0 to a year; a value beyond means the nearer of these
	Err   error         // why the attempt failed; nil: the handler requested a retry
}

// Error is the text of Err.
func (e *RetryError) Error() string {
	if e == nil || e.Err == nil {
		return "the handler requested a retry"
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *RetryError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// RetryAfter returns a *RetryError: the next attempt is made after d, at most a year, in
// place of the ladder's wait. The attempt counts as failed, and after the last rung the
// delivery is dead. err may be nil.
func RetryAfter(d time.Duration, err error) error { return &RetryError{After: d, Err: err} }

// SnoozeError is the error of a handler that lets its delivery wait.
type SnoozeError struct {
	After time.Duration // from 0 to a year; a value beyond means the nearer of these
}

// Error says how long the delivery waits.
func (e *SnoozeError) Error() string {
	if e == nil {
		return "the handler lets it wait"
	}
	return "the handler lets it wait for " + e.After.String()
}

// Snooze returns a *SnoozeError: nothing failed, and the handler is called again after d, at most a
// year. No attempt is counted, and the ladder stays where it is. A delivery whose message expires
// before that is dead, with reason expired. Without an expiry, a handler bounds itself by
// Delivery.Snoozes.
func Snooze(d time.Duration) error { return &SnoozeError{After: d} }

// deliveryKey is the key of the delivery in a handler's context.
type deliveryKey struct{}

// NewContext returns a context with d, as a handler's context has it. Tests call functions with
// it that read FromContext.
func NewContext(ctx context.Context, d Delivery) context.Context {
	return handlerContext{ctx, &d}
}

// FromContext returns the delivery of a handler's context, or of NewContext. ok is false for
// any other context.
func FromContext(ctx context.Context) (d Delivery, ok bool) {
	if ctx == nil {
		return d, false
	}
	p, ok := ctx.Value(deliveryKey{}).(*Delivery)
	if !ok {
		return d, false
	}
	return *p, true
}
