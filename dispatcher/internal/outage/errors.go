package outage

import (
	"context"
	"errors"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
)

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
