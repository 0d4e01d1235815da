package dispatcher

import (
	"context"
	"errors"
	"fmt"
)

// Degraded says that some parts of the store did not do what was asked, or all of
// them; the others did. The store leaves the parts alone that failed, and looks
// at them again by itself: no call needs to be repeated for them.
type Degraded struct {
	Failed, Of int     // parts
	Errs       []error // why; never empty
}

// Error is told by the first: where a node is down all its parts say the same.
func (e *Degraded) Error() string {
	if len(e.Errs) == 1 {
		return e.Errs[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", e.Errs[0], len(e.Errs)-1)
}

// Unwrap are the reasons.
func (e *Degraded) Unwrap() []error { return e.Errs }

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
