package outage

import (
	"context"
	"errors"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
)

// Split returns the sum of all Degraded errors in an error; nil: there are none. rest is the
// error of the whole call; nil: there is none.
func Split(err error) (sum *dispatcher.Degraded, rest error) {
	var first *dispatcher.Degraded
	if !errors.As(err, &first) { // the most of them, and all that are no error
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

// Whole returns the error of an error that concerns the whole store; nil: only parts of it
// failed, or nothing.
func Whole(err error) error {
	_, rest := Split(err)
	return rest
}

// plus is the sum of two, either of which may be nil.
func plus(a, b *dispatcher.Degraded) *dispatcher.Degraded {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &dispatcher.Degraded{Failed: min(a.Failed+b.Failed, b.Of), Of: b.Of, Errs: append(a.Errs[:len(a.Errs):len(a.Errs)], b.Errs...)}
}

// Join makes one error of the errors of a batch, many of which are the same; nil: there are
// none.
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

// Any reports whether one of the errors that err is made of is as asked for.
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

// Passes reports whether what failed for this reason may work another time: the
// store was out of reach or full, or there was no time left. What does not pass
// was understood, and refused.
func Passes(err error) bool {
	for _, reason := range []error{dispatcher.ErrUnavailable, dispatcher.ErrFull, dispatcher.ErrFenced, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// Refuses reports whether a call that failed for this reason would fail again.
func Refuses(err error) bool { return !Passes(err) }
