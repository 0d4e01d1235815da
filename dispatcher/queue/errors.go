package queue

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// The errors of this package, for errors.Is. If the context of a call has ended, the call
// returns the error of the context, and none of these.
var (
	// ErrUnopened means that the Queue was not made by Open: it is nil, or a zero value.
	ErrUnopened = errors.New("the queue was not made by queue.Open")
	// ErrClosed means that Close was called, or that Run has ended.
	ErrClosed = errors.New("the queue is closed")
	// ErrInvalid is matched by every *InvalidError.
	ErrInvalid = errors.New("invalid")
	// ErrConflict means that another message has the id. Nothing was changed.
	ErrConflict = errors.New("the id is taken by another message")
	// ErrLaneFull means that Options.MaxWaiting deliveries wait for the destination. Nothing
	// was stored.
	ErrLaneFull = errors.New("as many deliveries wait for its destination as Options.MaxWaiting allows")
	// ErrUnmatched means that no endpoint matches a callback, so nobody would get it.
	// Nothing was stored. Callback.AllowUnmatched accepts that.
	ErrUnmatched = errors.New("it has no URL and no Endpoint, and no endpoint of its tenant has a topic that matches")
	// ErrUnavailable means that Redis did not respond. The message may be stored. It is
	// safe to publish it again with the same ID. A later try may work.
	ErrUnavailable = dispatcher.ErrUnavailable
	// ErrDenied means that Redis refuses the user: the password is wrong or missing, or the
	// user lacks a right. Nothing was changed, and no retry helps.
	ErrDenied = errors.New("refused by Redis")
	// ErrFull means that Redis has no memory left. Nothing was changed.
	ErrFull = dispatcher.ErrFull
	// ErrNotFound means that there is no such message.
	ErrNotFound = dispatcher.ErrNotFound
	// ErrUnrecorded means that outcomes of attempts could not be recorded. The text has
	// their number.
	ErrUnrecorded = errors.New("outcomes of attempts were not recorded")
	// ErrBegun means that a delivery can't wait until another time, because it is handled now, has
	// ended, or a person asked for its attempt.
	ErrBegun = errors.New("it is handled now, was asked for, or has ended")
	// ErrNoHandler means that a Mux has no handler for the topic of a delivery.
	ErrNoHandler = errors.New("no handler for its topic")
	// ErrSkipRetry is matched by the errors of SkipRetry. A handler may also wrap it itself.
	ErrSkipRetry = errors.New("another attempt makes no sense")
)

// FieldError is the mistake in one field or argument.
type FieldError struct {
	Field  string // its name in Go, such as Topic, Headers.Host, Options.Workers or url
	Detail string // such as: is needed
}

// InvalidError has all mistakes of a Task, a Callback, the Options or an argument. Nothing
// was done.
type InvalidError struct {
	Fields []FieldError
}

// Error names each field with its mistake.
func (e *InvalidError) Error() string {
	var b strings.Builder
	b.WriteString(ErrInvalid.Error())
	if e == nil {
		return b.String()
	}
	for i, f := range e.Fields {
		b.WriteString([]string{": ", "; "}[min(i, 1)] + f.Field + " " + f.Detail)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// add adds a mistake.
func (e *InvalidError) add(field, detail string) {
	e.Fields = append(e.Fields, FieldError{Field: field, Detail: detail})
}

// check adds a mistake if err is not nil.
func (e *InvalidError) check(field string, err error) {
	if err != nil {
		e.add(field, inGo(err.Error()))
	}
}

// fields are the fields of the API with their names in Go.
var fields = map[string]string{
	"id": "ID", "topic": "Topic", "tenant": "Tenant", "subject": "Subject", "queue": "Queue", "url": "URL", "endpoint": "Endpoint",
	"body": "Body", "content_type": "ContentType", "delay": "Delay", "deliver_at": "DeliverAt", "expires_at": "ExpiresAt",
	"ordering_key": "OrderingKey", "headers": "Headers", "ladder": "Ladder", "max_attempts": "MaxAttempts", "timeout": "Timeout",
	"success": "Success",
}

// details are sentences of the API that name its fields, as a caller in Go needs them.
var details = map[string]string{
	"give url or endpoint, not both":                                                 "and URL can't both be given",
	"give delay or deliver_at, not both":                                             "and DeliverAt can't both be given",
	"begins with ep_, as the ids of endpoints do: give endpoint":                     "begins with ep_, as the ids of endpoints do: Send is for these",
	"must be 1s to 60s, or to 1h for a queue":                                        "must be 1s to 60s",
	"must be 1 to 101":                                                               "must be 1 to 101, or 0 for no limit",
	"a bare URL needs a secret to sign with: set SIGNING_SECRET":                     "needs a secret to sign with",
	"must not hold a user or password; use headers":                                  "must not hold a user or password; use Headers",
	"must be 1 to 64 of A-Z a-z 0-9 _ . -, not beginning with u_ or q_, as lanes do": queueRule,
}

// checkID adds a mistake if id is not one of a message.
func (e *InvalidError) checkID(id string) {
	switch d, whole := dispatcher.ParseDeliveryID(id); {
	case dispatcher.ValidID(id):
	case whole:
		e.add("id", "is of a delivery: give the id of its message, "+d.Message)
	default:
		e.add("id", idRule)
	}
}

// idRule is what the id of a message must be.
const idRule = "must be 1 to 128 of A-Z a-z 0-9 _ -"

// checkQueue adds a mistake if name is not one of a queue.
func (e *InvalidError) checkQueue(field, name string) {
	if !dispatcher.ValidQueue(name) {
		e.add(field, queueRule)
	}
}

// queueRule is what the name of a queue must be.
const queueRule = "must be 1 to 64 of A-Z a-z 0-9 _ . -, not beginning with ep_, u_ or q_"

// ofMessage adds the mistakes that the checks of the API found.
func (e *InvalidError) ofMessage(found []dispatcher.FieldError) {
	for _, f := range found {
		path := strings.TrimPrefix(f.Path, "$.")
		name, rest, _ := strings.Cut(path, ".")
		if rest != "" {
			rest = "." + rest
		}
		detail, ok := details[f.Detail]
		if !ok {
			detail = inGo(f.Detail)
		}
		e.add(fields[name]+rest, detail)
	}
}

// optionOf has the settings of hookladder serve with the options that do the same.
var optionOf = map[string]string{
	"REDIS_URL": "url", "REDIS_MODE": "Options.RedisMode", "REDIS_MASTER": "Options.RedisMaster", "REDIS_CA_FILE": "Options.RedisCAFile",
	"PROJECT": "Options.Project", "PARTITIONS": "Options.Partitions", "DURABILITY": "Options.Durability", "MAX_BODY": "Options.MaxBody",
	"FANOUT_MAX": "Options.FanoutMax", "ENCRYPTION_KEY": "Options.EncryptionKey", "HEADER_PREFIX": "Options.HeaderPrefix",
	"ENDPOINT_MAX_WAITING": "Options.MaxWaiting",
}

// spelled finds the names of settings, and of fields of the API that are no English words.
var spelled = regexp.MustCompile(`\b(PROJECT|PARTITIONS|DURABILITY|[A-Z]+(_[A-Z]+)+|[a-z]+_[a-z]+)\b`)

// inGo returns a text of the store or the API with the names that a caller in Go uses.
func inGo(text string) string {
	return spelled.ReplaceAllStringFunc(text, func(name string) string {
		if option := optionOf[name]; option != "" {
			return option
		}
		if field := fields[name]; field != "" {
			return field
		}
		return name
	})
}

// reworded is an error with another text, and with another meaning for errors.Is.
type reworded struct {
	text string
	of   error
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.of }

// failed returns an error of the store as this package documents it, with what was done.
func failed(ctx context.Context, doing string, err error) error {
	var right *dispatcher.NoRight
	var emptied *Emptied
	switch {
	case conn.Refused(err):
		return fmt.Errorf("%s: %w: %s", doing, ErrDenied, conn.Word(err))
	case conn.Forbidden(err), errors.As(err, &right):
		return &reworded{fmt.Sprintf("%s: %s: %s", doing, ErrDenied, inGo(err.Error())), ErrDenied}
	case errors.As(err, &emptied):
	case errors.Is(err, conn.ErrSettings): // which are wrong, so a later try would not work
		return &reworded{doing + ": " + inGo(err.Error()), nil}
	case ended(ctx) != nil && (errors.Is(err, ErrUnavailable) || errors.Is(err, ended(ctx))):
		return fmt.Errorf("%s: %w", doing, ended(ctx))
	}
	return &reworded{doing + ": " + inGo(err.Error()), err}
}

// ended returns the error of a context that has ended. The deadline of a connection, which is the same
// as that of the context, can pass a moment before the context knows.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

var errNoContext = errors.New("the context is nil")

// usable returns an error unless a call may be made, and the error of ctx if it has ended.
func (q *Queue) usable(ctx context.Context, doing string) error {
	err := error(nil)
	switch {
	case q == nil || q.engine == nil:
		err = ErrUnopened
	case ctx == nil:
		err = errNoContext
	case q.isClosed():
		err = ErrClosed
	default:
		err = ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
	}
	return err
}

func (q *Queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// failed is the function failed for a call of a Queue, which may have been closed meanwhile.
func (q *Queue) failed(ctx context.Context, doing string, err error) error {
	if errors.Is(err, ErrUnavailable) && q.isClosed() {
		return fmt.Errorf("%s: %w", doing, ErrClosed)
	}
	return failed(ctx, doing, err)
}
