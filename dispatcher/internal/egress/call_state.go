package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// callState is the state of one call. It is also the context of the call's requests, so
// the transport, the dialer and the code that classifies an error find it without another
// allocation. Only the goroutine that called Send writes it.
type callState struct {
	context.Context
	shared    context.Context // the parent of many calls: its end and the deadline end this one; nil: only Context ends it
	call      dispatcher.Call
	first     error    // of the first try, for RoundTrip; nil: it was returned there
	connected bool     // a connection was opened or taken from the pool
	reused    bool     // the connection had carried a request before
	retries   bool     // the first try is over
	short     bool     // the connection began with a short ClientHello, see hello.go
	repeated  bool     // a retry, which uses a new connection and does not pool it, see connect
	answered  bool     // the receiver sent something, if only an informational response
	stage     int      // how far the dial got
	exchange  exchange // of the current try; here to save an allocation
	answer    dispatcher.Answer
	location  string // of a redirect; empty: no redirect
	unread    string // see dispatcher.Answer
	address   string // of the receiver, with its port; empty: no connection
}

// The stages of a dial, in order.
const (
	stageNone = iota
	stageLookup
	stageConnect
	stageProxy
	stageHandshake
)

func newCallState(ctx context.Context, call dispatcher.Call) *callState {
	t := &callState{Context: ctx, call: call}
	if until, ok := ctx.(*wait.Until); ok {
		t.shared = until.Parent()
	}
	return t
}

type callStateKey struct{}

// Value returns the callState itself for callStateKey.
func (t *callState) Value(key any) any {
	if key == (callStateKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// ended reports whether the call was cancelled, or its context has ended. If sockets
// keep the deadline, it does not read the clock.
func (t *callState) ended() bool {
	if t.shared != nil {
		return t.shared.Err() != nil
	}
	return t.Err() != nil
}

// expired reports whether the deadline has passed.
func (t *callState) expired() bool {
	end, ok := t.Deadline()
	return ok && !time.Now().Before(end)
}

// callStateOf returns the state of the call that a request or a dial belongs to, or nil.
func callStateOf(ctx context.Context) *callState {
	t, _ := ctx.Value(callStateKey{}).(*callState)
	return t
}

// checkRetry is the retry policy of retryablehttp. It retries a request whose connection
// failed before any response. It never retries after a response, because the receiver may
// have processed the request. It does not retry either if less than quickWait is left.
func checkRetry(ctx context.Context, _ *http.Response, err error) (bool, error) {
	if err == nil || ctx.Err() != nil {
		return false, nil
	}
	t := callStateOf(ctx)
	if t == nil || !t.mayRepeat(err) {
		return false, nil
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= quickWait {
		return false, nil // because err says more than a timeout would
	}
	t.repeated = t.repeated || t.connected
	t.connected, t.reused = false, false
	return true, nil
}

// mayRepeat reports whether err is a connection fault after which a retry is safe.
//
// Without a connection nothing was sent, so a retry costs the receiver nothing. A handshake without
// an answer is repeated also if it was closed or timed out, if the next one is shorter. If a new
// connection breaks, the request may have crashed the receiver, so the retry is left to
// the next attempt. An idle connection was probably closed by the receiver just before.
// This is the most common fault of all, so the request is retried once, on a new
// connection. If the first one did arrive, the receiver recognizes the second by its id.
func (t *callState) mayRepeat(err error) bool {
	if !t.connected {
		var silent *unanswered
		return errors.Is(err, syscall.ECONNREFUSED) || broken(err) || errors.As(err, &silent) && silent.other
	}
	return t.reused && !t.answered && (broken(err) || closed(err))
}

// broken reports whether a connection was reset.
func broken(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// closed reports whether a connection was closed in an orderly way before a response.
func closed(err error) bool { return errors.Is(err, io.EOF) }
