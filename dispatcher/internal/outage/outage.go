package outage

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Log logs once that the store can't be reached, and once that it is back, because every loop
// sees the same fault many times a second. While the outage lasts, it logs the last error once a
// minute, because the first one may be of another kind than those that follow.
//
// One call without a reply is no proof: it may have been too large, or its connection dead. So
// an outage is logged at the second such call, unless another call had a reply in between. The
// first call that works means that the store is back. If that was wrong, because one stage or
// some parts still fail while others work, the end is logged only after nothing failed for
// Calm.
type Log struct {
	log      *slog.Logger
	down, up string // messages of its lines

	// Notify is called with each of these lines, and must not block. It gets the start of the
	// outage and its error; nil: the store is back. It is set before the first Report.
	Notify func(since time.Time, why error)

	// ReadOnly gets the failures that happen because the store rejects changes. Such a store
	// is reachable, and a successful read does not prove that writes work. Only a call of the
	// stage Writes proves it, because it always writes. ReadOnly is set before the first
	// Report, with Writes; nil: none.
	ReadOnly *Log
	Writes   string

	mu         sync.Mutex // guards the fields below
	since      time.Time  // zero: no outage
	last       time.Time  // of the last failed call
	lastLogged time.Time  // when the last end was logged; zero: never
	wary       bool       // the logged end was wrong, or could be
	proven     bool       // the outage was logged
	errors     int
	first      string    // stage of the first failure
	err        error     // the first failure
	newest     error     // the last failure
	lastLine   time.Time // of this outage

	alone  time.Time // time of the last line about a single call without a reply; zero: never
	missed int       // number of such calls after it
}

// Calm is longer than the time until a stage fails again: it pauses for pauseMost, and its
// call takes settleWithin.
const Calm = 10 * time.Second

// aloneEvery is the time between two lines about single calls without a reply.
const aloneEvery = time.Minute

// continuesEvery is the time between two lines about an outage that lasts.
const continuesEvery = time.Minute

// New returns a Log of a store. It logs down when the store is lost, and up when it is back.
func New(log *slog.Logger, down, up string) *Log {
	return &Log{log: log, down: down, up: up}
}

// Report adds the result of a call of a stage; nil: it worked.
func (t *Log) Report(stage string, err error) {
	var emptied *dispatcher.Emptied
	if errors.As(err, &emptied) {
		return // the store works, and lost data is reported elsewhere
	}
	err = t.reportReadOnly(stage, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && t.since.IsZero() {
		return
	}
	now := time.Now()
	failed, rest := Split(err)
	some := rest == nil && failed != nil && failed.Failed < failed.Of
	switch {
	case err != nil && t.since.IsZero():
		t.wary = some || !t.lastLogged.IsZero() && now.Sub(t.lastLogged) < Calm
		t.since, t.last, t.errors, t.first, t.err, t.newest = now, now, 1, stage, err, err
		if t.proven = !unanswered(err); t.proven {
			t.logOutage(now, stage, failed, rest)
		}
	case err != nil:
		t.wary = t.wary || some
		t.last, t.newest = now, err
		t.errors++
		switch {
		case !t.proven:
			t.proven = true
			t.logOutage(now, stage, failed, rest)
		case now.Sub(t.lastLine) >= continuesEvery:
			t.logContinues(now, stage, failed, rest)
		}
	case !t.wary || now.Sub(t.last) >= Calm:
		if t.proven {
			t.hear(nil)
			t.log.Info(t.up, "stage", stage, slog.Float64("took_s", now.Sub(t.since).Round(time.Millisecond).Seconds()), "errors", t.errors)
			t.lastLogged = now
		} else {
			t.single(now)
		}
		t.since, t.err, t.newest = time.Time{}, nil, nil
	}
}

// Lost returns the last error of an outage of the whole store that lasts. It returns nil if there is
// none, if a part of the store responds, or if the last call only took too long.
func (t *Log) Lost() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() || !t.proven {
		return nil
	}
	failed, rest := Split(t.newest)
	if rest == nil && failed != nil && failed.Failed == failed.Of {
		_, rest = cause(failed, nil)
	}
	if rest == nil || unanswered(rest) {
		return nil
	}
	return rest
}

// reportReadOnly passes errors of a read-only store to ReadOnly, and returns the others.
func (t *Log) reportReadOnly(stage string, err error) error {
	if t.ReadOnly == nil {
		return err
	}
	is := func(one error) bool { return errors.Is(one, dispatcher.ErrReadOnly) }
	switch {
	case err == nil && stage == t.Writes:
		t.ReadOnly.Report(stage, nil)
	case err != nil && Any(err, is):
		t.ReadOnly.Report(stage, err)
		if !Any(err, func(one error) bool { return !is(one) }) {
			return nil // all of the store replied
		}
	}
	return err
}

// unanswered reports whether a call only took too long, which may affect this call alone. A
// rejection affects all similar calls.
func unanswered(err error) bool {
	var network interface{ Timeout() bool }
	return errors.Is(err, dispatcher.ErrUnavailable) && errors.As(err, &network) && network.Timeout()
}

// single logs, at a limited rate, that one call had no reply while others had one. mu is
// locked.
func (t *Log) single(now time.Time) {
	if t.missed++; !t.alone.IsZero() && now.Sub(t.alone) < aloneEvery {
		return
	}
	t.log.Warn("a call had no answer, though others had one", "stage", t.first, "calls", t.missed, "err", t.err)
	t.alone, t.missed = now, 0
}

// logOutage logs that an outage began. mu is locked.
func (t *Log) logOutage(now time.Time, stage string, failed *dispatcher.Degraded, rest error) {
	t.lastLine = now
	parts, why := cause(failed, rest)
	t.hear(why)
	t.log.Error(t.down, slices.Concat([]any{"stage", stage}, parts, []any{"err", why})...)
}

// logContinues logs that an outage lasts, with its last error. mu is locked.
func (t *Log) logContinues(now time.Time, stage string, failed *dispatcher.Degraded, rest error) {
	t.lastLine = now
	parts, why := cause(failed, rest)
	lasted := slog.Float64("lasted_s", now.Sub(t.since).Round(time.Millisecond).Seconds())
	t.log.Error("outage continues", slices.Concat([]any{"outage", t.down, "stage", stage}, parts, []any{lasted, "errors", t.errors, "err", why})...)
}

// cause returns the error of the whole store. If only parts of the store failed, it returns one of their
// errors, and their number as attributes of a log line.
func cause(failed *dispatcher.Degraded, rest error) (parts []any, why error) {
	if rest != nil {
		return nil, rest
	}
	why = failed.Errs[0]
	if inner, _ := Split(why); inner != nil {
		why = inner.Errs[0]
	}
	return []any{"partitions", failed.Failed, "of", failed.Of}, why
}

func (t *Log) hear(why error) {
	if t.Notify != nil {
		t.Notify(t.since, why)
	}
}

// CallWithin is the timeout after which the queue counts as unreachable.
const CallWithin = 5 * time.Second

// Within sets the timeout of a call, because every wait must end, also for a queue that hangs.
func Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, CallWithin)
}

// Waits before retries double from pauseFirst to PauseMost. An instance soon detects that the
// store is back, but not all instances at the same time.
const (
	pauseFirst = 50 * time.Millisecond
	PauseMost  = 2 * time.Second
)

// WaitBefore returns the wait before retry n, which counts from 1.
func WaitBefore(n int) time.Duration { return wait.Backoff(n, pauseFirst, PauseMost) }

// Pause waits before retry n, or until ctx ends.
func Pause(ctx context.Context, n int) { wait.Sleep(ctx, WaitBefore(n)) }

// Repeat reports err, and waits before the retry. It returns the number of failed calls in a
// row.
func (t *Log) Repeat(ctx context.Context, stage string, failures int, err error) int {
	if ctx.Err() != nil {
		return failures
	}
	t.Report(stage, err)
	if err == nil {
		return 0
	}
	Pause(ctx, failures+1)
	return failures + 1
}

// Continue is Repeat for a call to many parts of the store. If only some parts failed it does
// not wait, because the next call leaves them out.
func (t *Log) Continue(ctx context.Context, stage string, failures int, err error) int {
	if Whole(err) != nil || ctx.Err() != nil {
		return t.Repeat(ctx, stage, failures, err)
	}
	t.Report(stage, err)
	return 0
}

// Split returns the sum of all Degraded errors in an error; nil: none. rest is the error of
// the whole call; nil: none.
func Split(err error) (sum *dispatcher.Degraded, rest error) {
	var first *dispatcher.Degraded
	if !errors.As(err, &first) { // the largest of them, and all other errors
		return nil, err
	}
	switch e := err.(type) {
	case *dispatcher.Degraded:
		return e, nil
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			d, other := Split(one)
			sum = plus(sum, d)
			if rest == nil {
				rest = other
			}
		}
		return sum, rest
	}
	return Split(errors.Unwrap(err))
}

// Whole returns the part of an error that affects the whole store; nil: only parts of the
// store failed, or none.
func Whole(err error) error {
	_, rest := Split(err)
	return rest
}

// plus returns the sum of two errors, either of which may be nil.
func plus(a, b *dispatcher.Degraded) *dispatcher.Degraded {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &dispatcher.Degraded{Failed: min(a.Failed+b.Failed, b.Of), Of: b.Of, Errs: append(a.Errs[:len(a.Errs):len(a.Errs)], b.Errs...)}
}

// Join returns one error for the errors of a batch, many of which are the same; nil: none.
func Join(errs ...error) error {
	var met []*dispatcher.Degraded
	var sum *dispatcher.Degraded
	var rest error
	for _, err := range errs {
		d, other := Split(err)
		if d != nil && !slices.Contains(met, d) {
			met = append(met, d)
			sum = plus(sum, d)
		}
		if rest == nil {
			rest = other
		}
	}
	switch {
	case sum == nil:
		return rest
	case rest == nil:
		return sum
	}
	return errors.Join(rest, sum)
}

// Any reports whether err, or an error inside it, matches.
func Any(err error, is func(error) bool) bool {
	sum, rest := Split(err)
	if rest != nil && is(rest) {
		return true
	}
	for i := 0; sum != nil && i < len(sum.Errs); i++ {
		if is(sum.Errs[i]) {
			return true
		}
	}
	return false
}

// Passes reports whether a call with this error may work later: the store was unreachable or
// full, or the time was over. Any other error means that the store understood the call and
// rejected it.
func Passes(err error) bool {
	for _, reason := range []error{dispatcher.ErrUnavailable, dispatcher.ErrFull, dispatcher.ErrFenced, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// Refuses reports whether a call with this error would fail again.
func Refuses(err error) bool { return !Passes(err) }
