package wait

import (
	"context"
	"sync"
	"time"
)

// Until is a context that ends at a time, or earlier with its parent. It starts a timer
// only when Done is called, because most attempts end without a wait for Done. A socket has a
// deadline of its own.
type Until struct {
	context.Context // the parent
	at              time.Time

	mu      sync.Mutex      // guards the fields below
	timed   context.Context // nil: Done was not called
	cancel  context.CancelFunc
	stopped bool
}

// NewUntil returns a context that ends at a time. Its user calls Stop when the context is no
// longer needed.
func NewUntil(parent context.Context, at time.Time) *Until {
	if end, ok := parent.Deadline(); ok && end.Before(at) {
		at = end
	}
	return &Until{Context: parent, at: at}
}

// Parent returns the context that this one was made from.
func (u *Until) Parent() context.Context { return u.Context }

// Deadline returns the time at which the context ends.
func (u *Until) Deadline() (time.Time, bool) { return u.at, true }

// Done returns a channel that is closed when the context ends.
func (u *Until) Done() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timed == nil {
		u.timed, u.cancel = context.WithDeadline(u.Context, u.at)
		if u.stopped {
			u.cancel()
		}
	}
	return u.timed.Done()
}

// Err returns nil until the context ends, and then the reason.
func (u *Until) Err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.timed != nil:
		return u.timed.Err()
	case u.Context.Err() != nil:
		return u.Context.Err()
	case u.stopped:
		return context.Canceled
	case !time.Now().Before(u.at):
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Value returns the parent's value. After Done it asks the context with the timer, so that
// contexts derived from this one need no goroutine.
func (u *Until) Value(key any) any {
	u.mu.Lock()
	in := u.Context
	if u.timed != nil {
		in = u.timed
	}
	u.mu.Unlock()
	return in.Value(key)
}

// Stop ends the context and its timer.
func (u *Until) Stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	if u.cancel != nil {
		u.cancel()
	}
}
