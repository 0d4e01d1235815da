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

// Delivery is what a handler gets: one message, for one attempt.
type Delivery struct {
	ID          string // <destination>:<message id>
	MessageID   string // the same at each attempt: what your side tells a repeat by
	Queue       string
	Topic       string
	Tenant      string
	Subject     string
	Attempt     int // from 1
	Body        []byte
	ContentType string
	Headers     map[string]string // the message's own; not to be changed
	CreatedAt   time.Time         // when it was published, by Redis' clock
}

// HandlerFunc handles one delivery. Where it returns nil the delivery is delivered, else
// the attempt failed: the next one is a rung of the ladder later, or it is dead after the
// last. A panic is a failed attempt too. ctx ends at the attempt's deadline, and when the
// program has to stop. A handler that goes on after its deadline keeps its delivery for as
// long again, and where it returns nil the delivery is delivered all the same. A handler may be
// called twice for the same message: where its program died in its midst, or was cut off from
// Redis.
type HandlerFunc func(ctx context.Context, d Delivery) error

// Handle has a queue's deliveries handled by h, once Run runs. Other programs may handle the
// same queue: each delivery goes to one of them. It panics where the name can't be a
// queue's, has a handler, or comes after Run: that is a mistake of the program.
func (q *Queue) Handle(name string, h HandlerFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !dispatcher.ValidQueue(name):
		panic(fmt.Sprintf("queue: Handle(%q): a queue's name is 1 to 64 of A-Z a-z 0-9 _ . - and does not begin with ep_, u_ or q_", name))
	case h == nil:
		panic(fmt.Sprintf("queue: Handle(%q): no handler", name))
	case q.handlers.has(name):
		panic(fmt.Sprintf("queue: Handle(%q): it has a handler already", name))
	case q.running || q.closed:
		panic(fmt.Sprintf("queue: Handle(%q): it comes after Run", name))
	}
	q.handlers.add(name, h)
}

// Handle is the method with the body read as JSON into a T. A body that can't be is dead at
// once, with the error: it would never be read another time.
func Handle[T any](q *Queue, name string, h func(ctx context.Context, body T, d Delivery) error) {
	if h == nil {
		q.Handle(name, nil)
	}
	q.Handle(name, func(ctx context.Context, d Delivery) error {
		var body T
		if err := json.Unmarshal(d.Body, &body); err != nil {
			return SkipRetry(fmt.Errorf("the body can't be read as %T: %w", body, unreadable(err)))
		}
		return h(ctx, body, d)
	})
}

// unreadable is why a body could not be read, without what it holds.
func unreadable(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		found, _, _ := strings.Cut(kind.Value, " ") // behind it is the number itself
		if kind.Field == "" {
			return fmt.Errorf("a JSON %s is no %s", found, kind.Type)
		}
		return fmt.Errorf("%s: a JSON %s is no %s", kind.Field, found, kind.Type)
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON at byte %d", syntax.Offset)
	}
	return err
}

// skipError ends a delivery, and retryError says when its next attempt is.
type (
	skipError  struct{ error }
	retryError struct {
		error
		after time.Duration
	}
)

func (e skipError) Unwrap() error  { return e.error }
func (e retryError) Unwrap() error { return e.error }

// SkipRetry is err, and says that no further attempt makes sense: the delivery is dead, with
// reason rejected. Of nil it is nil.
func SkipRetry(err error) error {
	if err == nil {
		return nil
	}
	return skipError{err}
}

// mostAfter bounds the wait that a handler may ask for, as of a taker over HTTP.
const mostAfter = 24 * time.Hour

var errAgain = errors.New("the handler asks to be called again later")

// RetryAfter is err, and says when the next attempt is: after d, at most 24 h, in place of the
// rung's wait. The attempt failed all the same, and after the last rung the delivery is dead. err
// may be nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = errAgain
	}
	return retryError{error: err, after: min(max(d, 0), mostAfter)}
}

// deliveryKey is that of the delivery in a handler's context.
type deliveryKey struct{}

// FromContext is the delivery that a handler's context is for; ok is false for any other
// context.
func FromContext(ctx context.Context) (d Delivery, ok bool) {
	p, ok := ctx.Value(deliveryKey{}).(*Delivery)
	if !ok {
		return d, false
	}
	return *p, true
}
