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
	Linked bool        // a link set the URL: other networks are private for it, and it shares no connection either
}

// ErrExhausted says that this host had no file descriptor, port or buffer left
// for a connection. It is in an Answer's Err; the receiver was not called.
var ErrExhausted = errors.New("this host ran out of its own resources")

// EgressFault is the part of our own network that made an attempt fail.
type EgressFault string

// The faults of our own network.
const (
	FaultResolver EgressFault = "resolver" // it answers nothing
	FaultRoute    EgressFault = "route"    // this host has no way to any receiver
	FaultProxy    EgressFault = "proxy"    // EGRESS_PROXY is not reached
)

// EgressFaults are all of them.
var EgressFaults = []EgressFault{FaultResolver, FaultRoute, FaultProxy}

// EgressError says that our own network made an attempt fail. It is in the Err of an Answer
// of ClassEgress.
type EgressError struct {
	Why EgressFault
	Err error
}

// Error names our network first, because the rest reads like a fault of the receiver.
func (e *EgressError) Error() string { return "our own network: " + e.Err.Error() }

// Unwrap is the failure itself.
func (e *EgressError) Unwrap() error { return e.Err }

// Class is the class of the attempt after our network has failed for too long.
func (e *EgressError) Class() Class {
	if e.Why == FaultResolver {
		return ClassDNS
	}
	return ClassConnect
}

// NetworkState says whether our own network works. Controls decide that, never attempts.
type NetworkState uint8

// The states of our own network.
const (
	NetworkUnknown NetworkState = iota // no control was needed yet
	NetworkUp
	NetworkDown // a control failed, and is repeated every second
)

// Network is a Sender that knows whether our own network works.
type Network interface {
	Sender
	// NetworkState is the result of the last controls.
	NetworkState() NetworkState
	// WatchNetwork calls changed after the first control, and when the controls of a kind fail or
	// succeed again; nil: they succeed. It must not block. When ctx ends, so does this.
	WatchNetwork(ctx context.Context, changed func(EgressFault, error))
	// CheckNetwork makes a control soon, unless one was just made.
	CheckNetwork()
}

// AnswerLimit is the number of bytes that are read of a response's body.
const AnswerLimit = success.AnswerLimit

// Answer is the result of a Call.
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
