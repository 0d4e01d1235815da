package outage

import (
	"context"
	"errors"

	"github.com/hookladder/hookladder/dispatcher"
)

// Split is the Degraded that an error is made of, of several their sum; nil:
// none. rest is what concerns the whole call; nil: nothing does.
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
			switch {
			case sum == nil:
				sum = d
			case d != nil:
				sum = &dispatcher.Degraded{Failed: min(sum.Failed+d.Failed, d.Of), Of: d.Of, Errs: append(sum.Errs[:len(sum.Errs):len(sum.Errs)], d.Errs...)}
			}
			if rest == nil {
				rest = other
			}
		}
		return sum, rest
	}
	return Split(errors.Unwrap(err))
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

func Refuses(err error) bool { return !Passes(err) }
