package dispatcher

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Call is one signed request on its way to a receiver.
type Call struct {
	URL    *url.URL    // not to be changed: calls share it
	Header http.Header // canonical names
	Body   []byte      // not to be changed
}

// Answer is what came of a Call.
type Answer struct {
	Status     int    // HTTP status; 0: no answer came
	RetryAfter string // the header as sent; empty: none
	Body       []byte // at most 64 KiB of it
	Cut        bool   // there was more of the body
	Class      Class  // why there is no answer; ClassNone where Status is set
	Err        error  // the same for people, free of the URL; nil where Status is set
	Took       time.Duration
}

// Sender makes calls. Every call ends when its context does, and holds no
// connection afterwards that can't be used again.
type Sender interface {
	Send(ctx context.Context, c Call) Answer
}
