package dispatcher

import (
	"context"
	"errors"
)

// degraded is the Degraded that an error is made of, of several their sum; nil:
// none. rest is what concerns the whole call; nil: nothing does.
func degraded(err error) (sum *Degraded, rest error) {
	var first *Degraded
	if !errors.As(err, &first) { // the most of them, and all that are no error
		return nil, err
	}
	switch e := err.(type) {
	case *Degraded:
		return e, nil
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			d, other := degraded(one)
			switch {
			case sum == nil:
				sum = d
			case d != nil:
				sum = &Degraded{Failed: min(sum.Failed+d.Failed, d.Of), Of: d.Of, Errs: append(sum.Errs[:len(sum.Errs):len(sum.Errs)], d.Errs...)}
			}
			if rest == nil {
				rest = other
			}
		}
		return sum, rest
	}
	return degraded(errors.Unwrap(err))
}

// some reports whether one of the errors that err is made of is as asked for.
func some(err error, is func(error) bool) bool {
	sum, rest := degraded(err)
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

// passes reports whether what failed for this reason may work another time: the
// store was out of reach or full, or there was no time left. What does not pass
// was understood, and refused.
func passes(err error) bool {
	for _, reason := range []error{ErrUnavailable, ErrFull, ErrFenced, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

func refuses(err error) bool { return !passes(err) }
