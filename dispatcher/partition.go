package dispatcher

import (
	"context"
	"errors"
	"slices"
)

// partitionErrors are those that an error is made of, the first of each
// partition. rest is what concerns the whole call; nil: nothing does.
func partitionErrors(err error) (failed []*PartitionError, rest error) {
	var first *PartitionError
	if !errors.As(err, &first) { // the most of them, and all that are no error
		return nil, err
	}
	switch e := err.(type) {
	case *PartitionError:
		return []*PartitionError{e}, nil
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			more, other := partitionErrors(one)
			for _, p := range more {
				if !slices.ContainsFunc(failed, func(o *PartitionError) bool { return o.Partition == p.Partition }) {
					failed = append(failed, p)
				}
			}
			if rest == nil {
				rest = other
			}
		}
		return failed, rest
	}
	return partitionErrors(errors.Unwrap(err))
}

// some reports whether one of the errors that err is made of is as asked for.
func some(err error, is func(error) bool) bool {
	failed, rest := partitionErrors(err)
	return rest != nil && is(rest) || slices.ContainsFunc(failed, func(p *PartitionError) bool { return is(p.Err) })
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
