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

// try is one call under way. It is the context of its requests too, so that
// the transport, the dialer and the judgement of a fault find it without another
// allocation. All of it is written by the goroutine that called Send.
type try struct {
	context.Context
	call     dispatcher.Call
	got      bool   // a connection was had
	reused   bool   // that connection had carried a request before
	repeated bool   // a request that may have arrived is sent once more, see connect
	answered bool   // something came back, if only an announcement
	stage    int    // how far its dial came
	location string // of a redirect; empty: none
}

// The stages of a dial.
const (
	stageNone = iota
	stageLookup
	stageConnect
	stageProxy
	stageHandshake
)

type tryKey struct{}

// Value finds the try itself under tryKey.
func (t *try) Value(key any) any {
	if key == (tryKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// tryOf is the try that a request or a dial belongs to.
func tryOf(ctx context.Context) *try {
	t, _ := ctx.Value(tryKey{}).(*try)
	return t
}

// checkRetry lets retryablehttp repeat a request whose connection failed before
// any answer. An answer is never asked for twice, whatever it says, and what
// took long once is not tried again within the same attempt.
func checkRetry(ctx context.Context, _ *http.Response, err error) (bool, error) {
	if err == nil || ctx.Err() != nil {
		return false, nil
	}
	t := tryOf(ctx)
	if t == nil || !t.mayRepeat(err) {
		return false, nil
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= quickWait {
		return false, nil // what went wrong says more than "timeout" would
	}
	t.repeated = t.repeated || t.got
	t.got, t.reused = false, false
	return true, nil
}

// mayRepeat reports whether err is a fault of the connection alone.
//
// While there was no connection, nothing was sent, and knocking again costs the
// receiver nothing. A fresh connection that breaks may have carried the request
// to a receiver that dies of it: it has the ladder's time before the next one.
// One that was idle may just have been closed by then, the commonest fault of
// all; it is repeated, and once only, since the repeat takes a fresh one. Should
// the request have arrived all the same, its id tells.
func (t *try) mayRepeat(err error) bool {
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
