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
	Lane   Lane        // calls of other lanes never share its connection
	Linked bool        // a link set the URL: it has its own private networks, and its own connection
}

// ErrExhausted reports that this host had no file descriptor, port or buffer left for a
// connection. An Answer has it in Err. The receiver was not called.
var ErrExhausted = errors.New("this host ran out of its own resources")

// EgressFault is the part of our own network that caused a failed attempt.
type EgressFault string

// The faults of our own network.
const (
	FaultResolver EgressFault = "resolver" // it does not respond
	FaultRoute    EgressFault = "route"    // this host has no way to any receiver
	FaultProxy    EgressFault = "proxy"    // EGRESS_PROXY can't be reached
)

// EgressFaults lists all faults.
func EgressFaults() []EgressFault {
	return []EgressFault{FaultResolver, FaultRoute, FaultProxy}
}

// EgressError reports that our own network caused a failed attempt. An Answer of ClassEgress has
// it in Err.
type EgressError struct {
	Why EgressFault
	Err error
}

// Error names our network first, because the cause alone reads like a fault of the receiver.
func (e *EgressError) Error() string { return "our own network: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *EgressError) Unwrap() error { return e.Err }

// Class returns the class of an attempt after our network has failed for too long.
func (e *EgressError) Class() Class {
	if e.Why == FaultResolver {
		return ClassDNS
	}
	return ClassConnect
}

// NetworkState is the state of our own network. Only controls change it, never attempts.
type NetworkState uint8

// The states of our own network.
const (
	NetworkUnknown NetworkState = iota // no control was needed yet
	NetworkUp
	NetworkDown // a control failed, and is repeated every second
)

// Network is a Sender that checks our own network.
type Network interface {
	Sender
	// NetworkState returns the result of the last controls.
	NetworkState() NetworkState
	// WatchNetwork calls changed after the first control, and when the controls of a kind fail or
	// succeed again. A nil error means that they succeed. changed must not block. WatchNetwork
	// ends with ctx.
	WatchNetwork(ctx context.Context, changed func(EgressFault, error))
	// CheckNetwork schedules a control, unless one was just made.
	CheckNetwork()
}

// AnswerLimit is the number of bytes that are read of a response body.
const AnswerLimit = success.AnswerLimit

// Answer is the result of a Call.
type Answer struct {
	Status     int    // HTTP status; 0: no response
	RetryAfter string // the header as sent; empty: none
	Date       string // the header as sent, with RetryAfter; empty: none
	Location   string // the header as sent, with a 3xx; empty: none
	Rejected   bool   // the receiver wants no further attempt: webhook-delivery: abort-message
	Body       []byte // at most AnswerLimit of it
	Cut        bool   // there was more of the body
	Unread     string // why the header or the body could not be read; empty: it was, or broke off
	Address    string // the connected address, with its port; empty: none
	ShortHello bool   // the TLS handshake began with a ClientHello of one packet, because a longer one got no answer
	Class      Class  // why there is no response; ClassNone if Status is set
	Err        error  // the same as an error, without the URL; nil if Status is set
	Took       time.Duration
}

// Sender makes calls. Every call ends with its context. It then releases each connection that
// can't be used again.
type Sender interface {
	Send(ctx context.Context, c Call) Answer
}
