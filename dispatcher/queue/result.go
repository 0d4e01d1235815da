package queue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hookladder/hookladder/ladder"
)

// handlerResult is the result of a handler as plain values. All methods of the handler's
// error, or of its panic value, were called before.
type handlerResult struct {
	failed bool
	raised bool           // it panicked, or ended its goroutine
	skip   bool           // no retry
	snooze bool           // it waits for after, and no attempt is counted
	after  *time.Duration // the wait before the next attempt; nil: the ladder's
	text   string
}

// noReturn is the result of a handler that ended its goroutine.
var noReturn = handlerResult{failed: true, raised: true, text: "the handler ended its goroutine"}

// call calls the handler and reads its error. A panic of either is a failed attempt. If
// the handler ends its goroutine, call does not return.
func (a *attempt) call(ctx context.Context) (r handlerResult) {
	defer func() {
		if p := recover(); p != nil {
			r = handlerResult{failed: true, raised: true, text: fmt.Sprintf("panic: %s\n%s", panicText(p), raised(debug.Stack()))}
			a.handlers.log.Error("handler panicked", "delivery_id", a.delivery.ID, "attempt", a.delivery.Attempt, "err", r.text)
		}
	}()
	return readError(a.of.handle(handlerContext{ctx, &a.delivery}, a.delivery))
}

// readError reads a handler's error. The error's methods are the caller's code and may
// panic, for example on a nil pointer that was returned as an error.
func readError(err error) handlerResult {
	if err == nil {
		return handlerResult{}
	}
	r := handlerResult{failed: true}
	r.text = guarded(err, func() string { return err.Error() })
	wrong := guarded(err, func() string {
		var again *RetryError
		var wait *SnoozeError
		switch {
		case errors.Is(err, ErrSkipRetry):
			r.skip = true
		case errors.As(err, &wait) && wait != nil:
			r.snooze, r.after = true, new(min(max(wait.After, 0), ladder.MaxDuration))
		case errors.As(err, &again) && again != nil:
			r.after = new(min(max(again.After, 0), ladder.MaxDuration))
		}
		return ""
	})
	if wrong != "" {
		r.text = wrong
	}
	return r
}

// guarded returns the text of read, or of its panic.
func guarded(err error, read func() string) (text string) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		kind := fmt.Sprintf("%T", err)
		if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
			kind = "a nil " + kind + ", which as an error is not nil"
		}
		text = fmt.Sprintf("the handler's error panicked: %s: %s\n%s", kind, panicText(p), raised(debug.Stack()))
	}()
	return read()
}

// panicText formats the value of a panic. Its methods may panic too.
func panicText(p any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T, which panics when it is printed", p)
		}
	}()
	return fmt.Sprint(p)
}

// raised returns the part of a stack below the call of panic.
func raised(stack []byte) string {
	text := string(stack)
	if _, rest, ok := strings.Cut(text, "\npanic("); ok {
		if lines := strings.SplitN(rest, "\n", 3); len(lines) == 3 {
			return lines[2]
		}
	}
	return text
}
