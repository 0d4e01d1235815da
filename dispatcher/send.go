package dispatcher

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/hookladder/hookladder/dispatcher/success"
)

// Call is one signed request on its way to a receiver.
type Call struct {
	URL    *url.URL    // not to be changed: calls share it
	Header http.Header // canonical names
	Body   []byte      // not to be changed
	Lane   Lane        // calls of other lanes never use the same connection
}

// ErrExhausted says that this host had no file descriptor, port or buffer left
// for a connection. It is in an Answer's Err; the receiver was not called.
var ErrExhausted = errors.New("this host ran out of its own resources")

// AnswerLimit is how much of an answer's body is read, in bytes: what is judged of it.
const AnswerLimit = success.AnswerLimit

// Answer is what came of a Call.
type Answer struct {
	Status     int    // HTTP status; 0: no answer came
	RetryAfter string // the header as sent; empty: none
	Date       string // the header as sent, where RetryAfter is; empty: none
	Location   string // the header as sent, with a 3xx; empty: none
	Rejected   bool   // the receiver wants no further attempt: webhook-delivery: abort-message
	Body       []byte // at most AnswerLimit of it
	Cut        bool   // there was more of the body
	Address    string // connected to, with its port; empty: none was
	Class      Class  // why there is no answer; ClassNone where Status is set
	Err        error  // the same for people, free of the URL; nil where Status is set
	Took       time.Duration
}

// Sender makes calls. Every call ends when its context does, and holds no
// connection afterwards that can't be used again.
type Sender interface {
	Send(ctx context.Context, c Call) Answer
}
