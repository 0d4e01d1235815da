package callers

import (
	"context"
	"errors"
	"sync"
)

// ErrCrowdedOut is the cause of the context of a call that lost its place to another
// caller.
var ErrCrowdedOut = errors.New("another caller needed the place")

// Waiting limits how many calls wait at once, because each occupies a connection.
type Waiting struct {
	most int

	mu   sync.Mutex               // guards the fields below
	n    int                      // calls that wait
	each map[Identity][]*longCall // by caller, oldest first
}

// longCall is one call that waits.
type longCall struct{ lose context.CancelCauseFunc }

// NewWaiting returns Waiting for most calls at once.
func NewWaiting(most int) *Waiting {
	return &Waiting{most: max(most, 1), each: map[Identity][]*longCall{}}
}

// Enter takes a place for a caller until leave is called. If all places are taken, the
// caller with the most loses its oldest: the context of that call ends with ErrCrowdedOut
// as its cause. ok is false if the new caller would have no fewer places than that one.
func (w *Waiting) Enter(ctx context.Context, who Identity) (waits context.Context, leave func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n >= w.most && !w.makeRoom(who) {
		return ctx, func() {}, false
	}
	waits, lose := context.WithCancelCause(ctx)
	mine := &longCall{lose}
	w.each[who] = append(w.each[who], mine)
	w.n++
	return waits, func() {
		lose(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.remove(who, mine)
	}, true
}

// makeRoom ends the oldest call of the caller with the most calls, unless the new caller would
// then have the same number.
func (w *Waiting) makeRoom(who Identity) bool {
	var from Identity
	for one, all := range w.each {
		if len(all) > len(w.each[from]) {
			from = one
		}
	}
	if len(w.each[from]) <= len(w.each[who])+1 {
		return false
	}
	oldest := w.each[from][0]
	oldest.lose(ErrCrowdedOut)
	w.remove(from, oldest)
	return true
}

// remove removes a waiting call, if it is still there.
func (w *Waiting) remove(who Identity, one *longCall) {
	all := w.each[who]
	for i := range all {
		if all[i] != one {
			continue
		}
		w.n--
		if w.each[who] = append(all[:i:i], all[i+1:]...); len(all) == 1 {
			delete(w.each, who)
		}
		return
	}
}

// CrowdedOut reports whether a call lost its place.
func CrowdedOut(ctx context.Context) bool { return context.Cause(ctx) == ErrCrowdedOut }
