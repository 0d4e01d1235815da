package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// callState is the state of one call that is under way. It is the context of its
// requests too, so that the transport, the dialer and the code that classifies a
// fault find it without another allocation. Only the goroutine that called Send
// writes it.
type callState struct {
	context.Context
	call     dispatcher.Call
	got      bool   // there was a connection
	reused   bool   // that connection had carried a request before
	repeated bool   // it takes a new connection and does not keep it, see connect
	answered bool   // something came back, if only an announcement
	stage    int    // how far its dial came
	location string // of a redirect; empty: none
	address  string // of the receiver, with its port; empty: it was not reached
}

// The stages of a dial.
const (
	stageNone = iota
	stageLookup
	stageConnect
	stageProxy
	stageHandshake
)

type callStateKey struct{}

// Value finds the callState itself under callStateKey.
func (t *callState) Value(key any) any {
	if key == (callStateKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// callStateOf is the call that a request or a dial belongs to.
func callStateOf(ctx context.Context) *callState {
	t, _ := ctx.Value(callStateKey{}).(*callState)
	return t
}

// checkRetry lets retryablehttp repeat a request whose connection failed before
// any answer. After an answer the request is never repeated, whatever the answer
// says. Neither is a request that took long.
func checkRetry(ctx context.Context, _ *http.Response, err error) (bool, error) {
	if err == nil || ctx.Err() != nil {
		return false, nil
	}
	t := callStateOf(ctx)
	if t == nil || !t.mayRepeat(err) {
		return false, nil
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= quickWait {
		return false, nil // the fault says more than "timeout" would
	}
	t.repeated = t.repeated || t.got
	t.got, t.reused = false, false
	return true, nil
}

// mayRepeat reports whether err is a fault of the connection alone.
//
// Without a connection nothing was sent, and another try costs the receiver
// nothing. If a new connection breaks, the request may have crashed the receiver:
// the next attempt waits for the ladder. An idle connection was probably closed
// by the receiver just before, the most common fault of all. Then the request is
// repeated once, on a new connection. If it did arrive, its id shows the repeat.
func (t *callState) mayRepeat(err error) bool {
	if !t.got {
		return errors.Is(err, syscall.ECONNREFUSED) || broken(err)
	}
	return t.reused && !t.answered && (broken(err) || closed(err))
}

// broken reports whether a connection was torn down.
func broken(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// closed reports whether a connection was closed in good order before an answer.
func closed(err error) bool { return errors.Is(err, io.EOF) }
